#include "core/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <tuple>
#include <utility>

#include "core/utf8.h"

namespace tl {
namespace {

std::string format_number(const char* format, double value, const char* unit) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return std::string(buffer.data()) + unit;
}

/// The value in the largest unit that leaves at least 1, where rounding to the shown decimals may still promote it.
template <std::size_t N>
std::string format_scaled(double value, double step, const std::array<const char*, N>& units, bool three_digits) {
  std::size_t unit = 0;
  const auto shown = [&] { return value >= 99.95 ? std::round(value) : value; };
  while (unit + 1 < N && shown() >= step) {
    value /= step;
    ++unit;
  }
  if (unit == 0) return format_number("%.0f", value, units[0]);
  if (value >= 99.95) return format_number("%.0f", value, units[unit]);
  return format_number(three_digits && value < 9.995 ? "%.2f" : "%.1f", value, units[unit]);
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return lower(c); });
  return out;
}

/// Optimal string alignment distance (Damerau-Levenshtein without edits inside a swapped pair).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (; !text.empty(); ++width) text.remove_prefix(decode_utf8(text).bytes);
  return width;
}

std::string pad_right(std::string_view text, std::size_t width) {
  const std::size_t taken = display_width(text);
  return std::string(text) + std::string(taken < width ? width - taken : 0, ' ');
}

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t taken = display_width(text);
  return std::string(taken < width ? width - taken : 0, ' ') + std::string(text);
}

std::string elide(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return {};
  std::size_t end = 0;
  for (std::size_t column = 0; column + 1 < width; ++column) end += decode_utf8(text.substr(end)).bytes;
  return std::string(text.substr(0, end)) + "…";
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array kUnits = {" B", " KB", " MB", " GB", " TB", " PB", " EB"};
  return format_scaled(static_cast<double>(bytes), 1024, kUnits, false);
}

std::string format_count(std::uint64_t count) {
  static constexpr std::array kUnits = {"", " K", " M", " G", " T", " P", " E"};
  return format_scaled(static_cast<double>(count), 1000, kUnits, true);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds >= 3599.5) {
    const double minutes = std::floor(seconds / 60 + 0.5);
    return format_number("%.0f h ", std::floor(minutes / 60), "") +
           format_number("%.0f", std::fmod(minutes, 60), " min");
  }
  if (seconds >= 99.95) {
    const double whole = std::floor(seconds + 0.5);
    return format_number("%.0f min ", std::floor(whole / 60), "") + format_number("%.0f", std::fmod(whole, 60), " s");
  }
  if (seconds == 0) return "0 s";
  static constexpr std::array kUnits = {" ns", " us", " ms", " s"};
  return format_scaled(seconds * 1e9, 1000, kUnits, false);
}

std::vector<std::string> did_you_mean(std::string_view wanted, std::span<const std::string> candidates,
                                      std::size_t max) {
  constexpr std::size_t kLongest = 256;
  const std::string key = lower(wanted);
  const std::size_t allowed = std::clamp<std::size_t>(key.size() / 3, 1, 4);
  std::vector<std::tuple<std::size_t, std::size_t>> found;  // (score, index)
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::string candidate = lower(candidates[i]);
    const std::size_t gap =
        candidate.size() > key.size() ? candidate.size() - key.size() : key.size() - candidate.size();
    const bool contains = candidate.find(key) != std::string::npos || key.find(candidate) != std::string::npos;
    const bool comparable = gap <= allowed && candidate.size() <= kLongest && key.size() <= kLongest;
    const std::size_t distance = comparable ? edit_distance(key, candidate) : allowed + 1;
    // Texts that agree in no character are no slips of each other: `b` for `x`.
    if (distance <= allowed && distance < std::max(key.size(), candidate.size())) {
      found.emplace_back(distance, i);
    } else if (contains && key.size() >= 2 && candidate.size() >= 2) {
      found.emplace_back(allowed + gap, i);
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> out;
  for (const auto& [score, index] : found) {
    if (out.size() == max) break;
    if (std::find(out.begin(), out.end(), candidates[index]) == out.end()) out.push_back(candidates[index]);
  }
  return out;
}

}  // namespace tl

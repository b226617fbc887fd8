#include "trace_options.h"

#include <charconv>
#include <cmath>

#include "core/error.h"

namespace tl::cli {
namespace {

/// A positive number and the unit behind it.
std::pair<double, std::string> number_and_unit(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value) || value <= 0) return {0, text};
  return {value, std::string(end, text.data() + text.size())};
}

[[noreturn]] void throw_bad(const std::string& option, const std::string& text, const std::string& form) {
  throw Error(ErrorCode::kUsage, option + " " + text + ": not a positive amount", "write " + form);
}

}  // namespace

double parse_seconds(const std::string& option, const std::string& text) {
  const auto [value, unit] = number_and_unit(text);
  constexpr double kMost = 10.0 * 365 * 24 * 3600;
  const double factor = unit.empty() || unit == "s" ? 1
                        : unit == "m"               ? 60
                        : unit == "h"               ? 3600
                        : unit == "ms"              ? 0.001
                                                    : 0;
  if (value * factor <= 0 || value * factor > kMost) throw_bad(option, text, option + " 30, 90s, 2m or 1h");
  return value * factor;
}

std::size_t parse_bytes(const std::string& option, const std::string& text) {
  auto [value, unit] = number_and_unit(text);
  if (unit.ends_with("iB")) unit.erase(unit.size() - 2);
  if (unit.size() > 1 && unit.ends_with("B")) unit.pop_back();
  const std::string_view letters = "KMGT";
  double factor = unit.empty() || unit == "B" ? 1 : 0;
  if (const auto at = unit.size() == 1 ? letters.find(unit[0]) : std::string_view::npos; at != std::string_view::npos) {
    factor = std::pow(1024.0, static_cast<double>(at + 1));
  }
  const double bytes = value * factor;
  if (bytes < 1 || bytes > 0x1.0p62) throw_bad(option, text, option + " 512MB, 8GB or a number of bytes");
  return static_cast<std::size_t>(bytes);
}

}  // namespace tl::cli

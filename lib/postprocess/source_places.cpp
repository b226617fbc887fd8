#include "postprocess/source_places.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/python_tokens.h"

namespace tl {
namespace {

constexpr std::string_view kStarts = "(* \t\r\n\\";  // may stand between the beginning of a ternary and its first name

bool names_statement(std::string_view word) {
  constexpr std::array<std::string_view, 10> kWords = {"for",   "while", "return", "break", "continue",
                                                       "raise", "with",  "def",    "class", "else"};
  return std::ranges::find(kWords, word) != kWords.end();
}

std::string_view word_at(std::string_view text, std::uint32_t at) {
  auto end = std::size_t{at};
  while (end < text.size() && ((text[end] >= 'a' && text[end] <= 'z') || text[end] == '_')) ++end;
  return text.substr(at, end - at);
}

}  // namespace

SourcePlaces::SourcePlaces(std::span<const SourceText> texts, const Trace& trace)
    : texts_(texts), trace_(trace), lines_(texts.size()), places_(trace.call_sites.file.size()) {
  for (std::size_t number = 0; number < texts.size(); ++number) {
    const auto& text = texts[number];
    if (text.text.size() > kPythonTextBytes) continue;
    auto& begins = lines_[number].begins;
    begins.push_back(0);
    for (std::size_t at = 0; at < text.text.size(); ++at) {
      if (text.text[at] == '\n' && at + 1 < text.text.size()) begins.push_back(static_cast<std::uint32_t>(at + 1));
    }
    of_file_[text.file].push_back(static_cast<std::int32_t>(number));
  }
}

const SourcePlace& SourcePlaces::place(std::int32_t call_site) {
  static const SourcePlace kNowhere;
  if (call_site < 0 || static_cast<std::size_t>(call_site) >= places_.size()) return kNowhere;
  auto& known = places_[static_cast<std::size_t>(call_site)];
  if (!known) known = find(call_site);
  return *known;
}

std::string_view SourcePlaces::line_text(std::int32_t number, std::int64_t line) const {
  const auto& text = texts_[static_cast<std::size_t>(number)];
  const auto& begins = lines_[static_cast<std::size_t>(number)].begins;
  const auto index = line - text.first_line;
  if (index < 0 || index >= std::ssize(begins)) return {};
  const auto begin = begins[static_cast<std::size_t>(index)];
  const bool last = index + 1 == std::ssize(begins);
  const auto end = last ? text.text.size() : begins[static_cast<std::size_t>(index) + 1];
  return std::string_view(text.text).substr(begin, end - begin);
}

/// The smallest text of the file that has the line; none if texts have it and disagree.
SourcePlace SourcePlaces::find(std::int32_t call_site) const {
  const auto row = static_cast<std::size_t>(call_site);
  const auto& sites = trace_.call_sites;
  const auto file = of_file_.find(trace_.strings[sites.file[row]]);
  if (file == of_file_.end() || sites.column[row] < 0 || sites.column_end[row] < sites.column[row]) return {};
  std::int32_t best = -1;
  for (const auto number : file->second) {
    const auto line = line_text(number, sites.line[row]);
    if (line.empty()) continue;
    const auto size = [&](std::int32_t text) { return texts_[static_cast<std::size_t>(text)].text.size(); };
    if (best >= 0 && line_text(best, sites.line[row]) != line) return {};
    if (best < 0 || size(number) < size(best)) best = number;
  }
  if (best < 0) return {};
  const auto line = line_text(best, sites.line[row]);
  const auto& text = texts_[static_cast<std::size_t>(best)].text;
  const auto begin = static_cast<std::size_t>(line.data() - text.data()) + static_cast<std::size_t>(sites.column[row]);
  const auto end = begin + static_cast<std::size_t>(sites.column_end[row] - sites.column[row]);
  if (static_cast<std::size_t>(sites.column[row]) > line.size() || end > text.size()) return {};
  return {best, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

const PythonOutline* SourcePlaces::outline(std::int32_t text) {
  if (text < 0) return nullptr;
  auto& lines = lines_[static_cast<std::size_t>(text)];
  if (!lines.outlined) lines.outline = outline_python(texts_[static_cast<std::size_t>(text)].text);
  lines.outlined = true;
  return lines.outline ? &*lines.outline : nullptr;
}

std::int32_t SourcePlaces::line_of(std::int32_t text, std::uint32_t at) const {
  const auto& begins = lines_[static_cast<std::size_t>(text)].begins;
  const auto after = std::ranges::upper_bound(begins, at);
  const auto line = texts_[static_cast<std::size_t>(text)].first_line + (after - begins.begin()) - 1;
  return line > 0 && line <= INT32_MAX ? static_cast<std::int32_t>(line) : 0;
}

std::string_view SourcePlaces::text(std::int32_t number, TextSpan span) const {
  return std::string_view(texts_[static_cast<std::size_t>(number)].text).substr(span.begin, span.end - span.begin);
}

ConditionalMatch SourcePlaces::match(std::int32_t instruction) {
  if (instruction < 0) return {};
  const auto row = static_cast<std::size_t>(instruction);
  if (trace_.strings[trace_.instructions.op_name[row]] == "torch::cond") return {ConditionalKind::kCond, -1, -1, 0, 0};
  const auto site = trace_.instructions.call_site[row];
  if (site < 0) return {};
  // TorchScript gives what it makes itself no place, where others have one.
  if (!texts_.empty() && trace_.strings[trace_.call_sites.file[static_cast<std::size_t>(site)]].empty()) {
    return {ConditionalKind::kCompiler, -1, -1, 0, 0};
  }
  const auto& found = place(site);
  const auto* outline_here = outline(found.text);
  if (outline_here == nullptr) return {};
  for (std::size_t number = 0; number < outline_here->conditionals.size(); ++number) {
    const auto& conditional = outline_here->conditionals[number];
    if (conditional.ternary) continue;
    for (std::size_t arm = 0; arm < conditional.arms.size(); ++arm) {
      if (conditional.arms[arm].test.empty() || conditional.arms[arm].keyword != found.begin) continue;
      return {ConditionalKind::kIfChain, found.text, static_cast<std::int32_t>(number), static_cast<std::int32_t>(arm),
              found.begin};
    }
  }
  if (std::ranges::find(outline_here->asserts, found.begin) != outline_here->asserts.end()) {
    return {ConditionalKind::kAssert, found.text, -1, 0, found.begin};
  }
  return match_expression(found, *outline_here);
}

/// The place of a ternary begins with its first operand, behind brackets, and ends in its last one: the frontend merges
/// the ranges of the operands (torch/csrc/jit/frontend/tree.h), which leave out brackets around and behind them.
bool SourcePlaces::starts_ternary(const SourcePlace& place, const PythonConditional& ternary) const {
  if (place.begin < ternary.span.begin || !ternary.arms[0].body.holds(place.begin)) return false;
  const auto before = text(place.text, {ternary.span.begin, place.begin});
  return before.find_first_not_of(kStarts) == std::string_view::npos;
}

ConditionalMatch SourcePlaces::match_expression(const SourcePlace& place, const PythonOutline& outline) const {
  const auto& text = texts_[static_cast<std::size_t>(place.text)].text;
  if (names_statement(word_at(text, place.begin))) return {ConditionalKind::kCompiler, place.text, -1, 0, place.begin};
  std::int32_t found = -1;
  std::size_t fitting = 0;
  bool overlaps = false;
  for (std::size_t number = 0; number < outline.conditionals.size(); ++number) {
    const auto& ternary = outline.conditionals[number];
    if (!ternary.ternary || !ternary.span.holds(place.begin)) continue;
    const auto& last = ternary.arms[1].body;
    if (starts_ternary(place, ternary) && place.end > last.begin && place.end <= last.end) {
      found = static_cast<std::int32_t>(number);
      ++fitting;
    } else if (ternary.arms[0].body.holds(place.begin) && place.end > ternary.arms[0].body.end &&
               place.end <= last.end) {
      overlaps = true;
    }
  }
  if (fitting == 1) return {ConditionalKind::kIfExp, place.text, found, 0, place.begin};
  if (fitting > 1 || overlaps) return {};
  return {ConditionalKind::kBoolOp, place.text, -1, 0, place.begin};
}

}  // namespace tl

#include "diff/map_rules.h"

#include <re2/re2.h>

#include <algorithm>
#include <memory>

#include "core/error.h"

namespace tl {
namespace {

struct Rule {
  std::unique_ptr<RE2> pattern;
  std::string replacement;
  std::string where;  ///< FILE:LINE
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

Rule parse_rule(std::string_view line, const std::string& where) {
  const auto arrow = line.find("->");
  if (arrow == std::string_view::npos) {
    throw Error(ErrorCode::kMapRules, where + ": no -> in `" + std::string(line) + "`",
                R"(write PATTERN -> REPLACEMENT, as in encoder\.layer\.(\d+)(\..*)? -> blocks.\1\2)");
  }
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(8 << 20);
  const auto pattern = trimmed(line.substr(0, arrow));
  Rule rule{std::make_unique<RE2>(re2::StringPiece(pattern.data(), pattern.size()), options),
            std::string(trimmed(line.substr(arrow + 2))), where};
  if (!rule.pattern->ok()) throw Error(ErrorCode::kMapRules, where + ": " + rule.pattern->error());
  std::string problem;
  if (!rule.pattern->CheckRewriteString(rule.replacement, &problem)) {
    throw Error(ErrorCode::kMapRules, where + ": " + problem);
  }
  return rule;
}

std::vector<Rule> parse_rules(std::string_view text, std::string_view shown_name) {
  std::vector<Rule> rules;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    const auto line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    rules.push_back(parse_rule(line, std::string(shown_name) + ":" + std::to_string(number)));
  }
  return rules;
}

/// Every address that a rule may speak of.
std::vector<std::string_view> addresses_of(const Side& side) {
  std::vector<std::string_view> addresses;
  if (side.dump) {
    for (const auto* entries : {&side.dump->inputs, &side.dump->entries, &side.dump->outputs}) {
      for (const auto& entry : *entries) addresses.push_back(entry.name);
    }
    for (const auto& param : side.dump->params) addresses.push_back(param.address);
    return addresses;
  }
  const auto& trace = *side.trace;
  for (const auto code : trace.modules.address) addresses.push_back(trace.strings[code]);
  for (const auto code : trace.params.address) addresses.push_back(trace.strings[code]);
  for (const auto code : trace.buffers.address) addresses.push_back(trace.strings[code]);
  return addresses;
}

}  // namespace

Renamer parse_map_rules(std::string_view text, std::string_view shown_name) {
  const auto rules = std::make_shared<const std::vector<Rule>>(parse_rules(text, shown_name));
  return [rules](std::string_view address) {
    const re2::StringPiece piece(address.data(), address.size());
    for (const auto& rule : *rules) {
      if (!RE2::FullMatch(piece, *rule.pattern)) continue;
      std::vector<re2::StringPiece> groups(static_cast<std::size_t>(1 + rule.pattern->NumberOfCapturingGroups()));
      rule.pattern->Match(piece, 0, piece.size(), RE2::ANCHOR_BOTH, groups.data(), static_cast<int>(groups.size()));
      std::string result;
      rule.pattern->Rewrite(&result, rule.replacement, groups.data(), static_cast<int>(groups.size()));
      return result;
    }
    return std::string(address);
  };
}

std::vector<std::string> unused_map_rules(std::string_view text, std::string_view shown_name, const Side& reference) {
  const auto rules = parse_rules(text, shown_name);
  std::vector<bool> used(rules.size(), false);
  for (const auto address : addresses_of(reference)) {
    const re2::StringPiece piece(address.data(), address.size());
    const auto rule =
        std::ranges::find_if(rules, [&](const Rule& each) { return RE2::FullMatch(piece, *each.pattern); });
    if (rule != rules.end()) used[static_cast<std::size_t>(rule - rules.begin())] = true;
  }
  std::vector<std::string> unused;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!used[i]) unused.push_back(rules[i].where);
  }
  return unused;
}

std::string map_rules_text(const std::vector<std::pair<std::string, std::string>>& renamed) {
  // Deeper addresses first: a rule for one covers what is below it, and the first that matches decides.
  auto ordered = renamed;
  std::ranges::stable_sort(ordered, std::ranges::greater(),
                           [](const auto& pair) { return std::ranges::count(pair.first, '.'); });
  std::string text = "# PATTERN -> REPLACEMENT: names of the reference on the left, of the subject on the right\n";
  for (const auto& [reference, subject] : ordered) {
    std::string replacement;
    for (const char c : subject) replacement += c == '\\' ? std::string("\\\\") : std::string(1, c);
    text += RE2::QuoteMeta(reference) + R"((\..*)? -> )" + replacement + "\\1\n";
  }
  return text;
}

}  // namespace tl

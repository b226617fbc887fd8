#include "archive/script_code.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "archive/script_lexer.h"
#include "archive/script_outline.h"

namespace tl {
namespace {

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

/// The Python module that a source stands for: `code/__torch__/a/b.py` holds what is named `__torch__.a.b.…`.
std::string module_of_source(std::string_view file) {
  constexpr std::string_view kFolder = "code/";
  constexpr std::string_view kSuffix = ".py";
  if (file.starts_with(kFolder)) file.remove_prefix(kFolder.size());
  if (file.ends_with(kSuffix)) file.remove_suffix(kSuffix.size());
  std::string module(file);
  std::ranges::replace(module, '/', '.');
  return module;
}

bool is_name(const ScriptToken& token) { return token.kind == ScriptTokenKind::kIdentifier; }

/// The tokens of one function: finds what its local names are, then numbers them.
class FunctionNames {
 public:
  explicit FunctionNames(std::span<const ScriptToken> tokens) {
    std::size_t depth = 0;
    bool in_head = true;
    bool line_start = true;
    bool in_for = false;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto& token = tokens[i];
      if (token.kind == ScriptTokenKind::kOpen) ++depth;
      if (token.kind == ScriptTokenKind::kClose && depth > 0) --depth;
      if (is_name(token) && line_start && token.text == "for") in_for = true;
      if (is_name(token) && token.text == "in") in_for = false;
      const bool member = i > 0 && tokens[i - 1].kind == ScriptTokenKind::kDot;
      if (is_name(token) && !member && i + 1 < tokens.size()) {
        const auto next = tokens[i + 1].text;
        const bool parameter = in_head && depth == 1 && next == ":";
        const bool target = !in_head && depth == 0 && (next == "=" || (next == "," && line_targets(tokens, i)));
        const bool loop = in_for && token.text != "for" && depth == 0;
        if (parameter || target || loop) add(token.text);
      }
      line_start = token.kind == ScriptTokenKind::kNewline;
      if (line_start) in_head = in_for = false;
    }
  }

  /// The number of a local name, -1 for any other.
  std::int64_t number(std::string_view name) {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) return -1;
    if (found->second < 0) found->second = next_++;
    return found->second;
  }

 private:
  void add(std::string_view name) {
    if (name != "self") numbers_.emplace(name, -1);
  }

  /// True if the names from `i` on, separated by commas, end in `=`: `a, b, = …`.
  static bool line_targets(std::span<const ScriptToken> tokens, std::size_t i) {
    constexpr std::size_t kMostTargets = 256;
    for (std::size_t end = std::min(tokens.size(), i + 2 * kMostTargets); i < end; ++i) {
      if (tokens[i].text == "=") return true;
      if (!is_name(tokens[i]) && tokens[i].text != ",") return false;
    }
    return false;
  }

  std::unordered_map<std::string_view, std::int64_t> numbers_;
  std::int64_t next_ = 0;
};

class UnitReader {
 public:
  UnitReader(std::string_view source, std::string_view file, std::vector<std::string>& names)
      : source_(source), file_(file), names_(names) {}

  std::vector<ScriptUnit> read() {
    ScriptLexer lexer(source_, file_);
    bool line_start = true;
    for (auto token = lexer.next(); token.kind != ScriptTokenKind::kEnd; token = lexer.next()) {
      if (token.kind == ScriptTokenKind::kNewline && line_start) continue;
      if (line_start && token.indent == 0) end_unit();
      tokens_.push_back(token);
      line_start = token.kind == ScriptTokenKind::kNewline;
    }
    end_unit();
    return std::move(units_);
  }

 private:
  void end_unit() {
    const bool unit = tokens_.size() > 1 && (tokens_[0].text == "class" || tokens_[0].text == "def");
    if (unit) add_unit();
    tokens_.clear();
  }

  void add_unit() {
    ScriptUnit unit;
    const auto qualified = module_of_source(file_) + "." + std::string(tokens_[1].text);
    unit.name = demangled_class(qualified);
    unit.file = std::string(file_);
    unit.first_line = tokens_.front().line;
    // A class is cut at its methods, since local names are those of a method.
    std::size_t begin = 0;
    for (std::size_t i = 1; i < tokens_.size(); ++i) {
      if (!is_name(tokens_[i]) || tokens_[i].text != "def" || tokens_[i - 1].kind != ScriptTokenKind::kNewline)
        continue;
      add_tokens(begin, i, unit);
      begin = i;
    }
    add_tokens(begin, tokens_.size(), unit);
    keep_text(unit);
    names_.push_back(qualified);
    units_.push_back(std::move(unit));
  }

  void add_tokens(std::size_t begin, std::size_t end, ScriptUnit& unit) const {
    const std::span<const ScriptToken> tokens(tokens_.data() + begin, end - begin);
    const bool function = !tokens.empty() && tokens[0].text == "def";
    FunctionNames names(function ? tokens : tokens.first(0));
    bool line_start = true;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto& token = tokens[i];
      const bool member = i > 0 && tokens[i - 1].kind == ScriptTokenKind::kDot;
      if (is_name(token) && token.text.starts_with("___torch_mangle_") && member) {
        if (i + 1 < tokens.size() && tokens[i + 1].kind == ScriptTokenKind::kDot) ++i;  // with the dot behind it
        continue;
      }
      const auto number = is_name(token) && !member ? names.number(token.text) : -1;
      auto hash = number >= 0 ? 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(number) : hash_of(token.text);
      if (line_start) hash = hash * 31 + token.indent;
      line_start = token.kind == ScriptTokenKind::kNewline;
      unit.tokens.push_back(hash);
      unit.lines.push_back(token.line);
    }
  }

  void keep_text(ScriptUnit& unit) {
    if (starts_.empty()) {
      starts_.push_back(0);
      for (std::size_t at = source_.find('\n'); at != std::string_view::npos; at = source_.find('\n', at + 1)) {
        starts_.push_back(at + 1);
      }
      starts_.push_back(source_.size() + 1);
    }
    constexpr std::size_t kLongestLine = 400;
    for (std::size_t line = unit.first_line; line <= tokens_.back().line && line < starts_.size(); ++line) {
      const auto text = source_.substr(starts_[line - 1], starts_[line] - starts_[line - 1] - 1);
      unit.text.emplace_back(text.substr(0, kLongestLine));
    }
  }

  std::string_view source_;
  std::string_view file_;
  std::vector<std::string>& names_;
  std::vector<ScriptToken> tokens_;
  std::vector<std::size_t> starts_;  // of lines
  std::vector<ScriptUnit> units_;
};

}  // namespace

std::string ScriptUnit::line_of(std::size_t token) const {
  if (lines.empty()) return {};
  const auto at = static_cast<std::size_t>(lines[std::min(token, lines.size() - 1)] - first_line);
  if (at >= text.size()) return {};
  const auto begin = text[at].find_first_not_of(" \t");
  return begin == std::string::npos ? std::string() : text[at].substr(begin);
}

std::vector<ScriptUnit> script_units(std::string_view source, std::string_view file, std::vector<std::string>& names) {
  return UnitReader(source, file, names).read();
}

}  // namespace tl

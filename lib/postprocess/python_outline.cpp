#include "postprocess/python_outline.h"

#include <algorithm>
#include <array>

#include "core/python_tokens.h"
#include "postprocess/python_expressions.h"

namespace tl {
namespace {

/// Conditionals, and tests, of one function: who looks for a place walks over them.
constexpr std::size_t kMostConditionals = 4096;

/// The text is no Python as far as this reads it.
struct NotUnderstood {};

/// What a block or statement does to the flow.
struct Flow {
  bool ends = false;      ///< provably leaves the block
  bool has_exit = false;  ///< a statement that leaves a block stands in it
};

struct Block {
  TextSpan span;
  Flow flow;
};

bool is_exit(std::string_view word) {
  return word == "return" || word == "raise" || word == "break" || word == "continue";
}

class Reader {
 public:
  Reader(std::string_view text, const PythonTokens& tokens)
      : text_(text), tokens_(tokens.tokens), lines_(tokens.lines), expressions_(text, tokens.tokens, out_) {}

  PythonOutline read() {
    if (!lines_.empty()) read_block(lines_[0].indent);
    if (next_ < lines_.size()) throw NotUnderstood{};
    if (out_.conditionals.size() > kMostConditionals || out_.tests.size() > kMostConditionals) throw NotUnderstood{};
    const auto by_begin = [](const auto& left, const auto& right) {
      return left.span.begin != right.span.begin ? left.span.begin < right.span.begin : left.span.end > right.span.end;
    };
    std::ranges::sort(out_.conditionals, by_begin);
    std::ranges::sort(out_.tests, by_begin);
    return std::move(out_);
  }

 private:
  std::string_view word(std::size_t token) const {
    return text_.substr(tokens_[token].begin, tokens_[token].end - tokens_[token].begin);
  }
  std::string_view first_word(const PythonLine& line) const { return word(line.first); }
  bool at(std::uint32_t indent, std::string_view keyword) const {
    return next_ < lines_.size() && lines_[next_].indent == indent && first_word(lines_[next_]) == keyword;
  }
  TextSpan span_of(std::size_t first, std::size_t end) const {
    return first < end ? TextSpan{tokens_[first].begin, tokens_[end - 1].end} : TextSpan{};
  }

  /// The lines of one indentation from the next one on, with what stands deeper below them.
  Block read_block(std::uint32_t indent) {
    if (++depth_ > kPythonDepth) throw NotUnderstood{};
    Block block;
    block.span.begin = tokens_[lines_[next_].first].begin;
    std::vector<std::size_t> falling;  // chains without else all of whose arms end, with no statement after them yet
    std::vector<std::pair<std::size_t, std::uint32_t>> fallen;  // those with one, and where it begins
    while (next_ < lines_.size() && lines_[next_].indent == indent) {
      const auto begin = tokens_[lines_[next_].first].begin;
      for (const auto chain : falling) fallen.emplace_back(chain, begin);
      falling.clear();
      std::optional<std::size_t> chain;
      const auto flow = read_statement(chain);
      block.flow.ends = flow.ends;
      block.flow.has_exit = block.flow.has_exit || flow.has_exit;
      if (chain && falls_through(*chain)) falling.push_back(*chain);
    }
    if (next_ < lines_.size() && lines_[next_].indent > indent) throw NotUnderstood{};
    block.span.end = tokens_[lines_[next_ - 1].end - 1].end;
    for (const auto& [chain, begin] : fallen) {
      out_.conditionals[chain].arms.push_back(
          {ArmKind::kFallthrough, begin, {}, {begin, block.span.end}, block.flow.ends});
    }
    --depth_;
    return block;
  }

  bool falls_through(std::size_t chain) const {
    const auto& arms = out_.conditionals[chain].arms;
    return arms.back().kind != ArmKind::kElse && std::ranges::all_of(arms, &PythonArm::ends);
  }

  /// Reads one statement with all its clauses. `chain` is set to the number of the conditional if it is an `if`.
  Flow read_statement(std::optional<std::size_t>& chain) {
    const auto& line = lines_[next_];
    const auto keyword = first_word(line);
    if (keyword == "if") {
      chain = read_if();
      const auto& conditional = out_.conditionals[*chain];
      const bool whole = conditional.arms.back().kind == ArmKind::kElse;
      return {whole && std::ranges::all_of(conditional.arms, &PythonArm::ends), conditional.has_exit};
    }
    if (keyword == "elif" || keyword == "else" || keyword == "except" || keyword == "finally") throw NotUnderstood{};
    if (keyword == "while" || keyword == "for") return read_clauses({"else"});
    if (keyword == "try") return read_clauses({"except", "else", "finally"});
    if (keyword == "with") return read_clauses({});
    if (keyword == "async") return read_async(line);
    if (keyword == "def" || keyword == "class") {
      read_clause();
      return {};
    }
    if ((keyword == "match" || keyword == "case") && opens_block(line)) return read_clauses({});
    return read_simple_line(line.first, line.end, true);
  }

  Flow read_async(const PythonLine& line) {
    const auto what = line.first + 1 < line.end ? word(line.first + 1) : std::string_view();
    if (what == "def") {
      read_clause();
      return {};
    }
    if (what != "for" && what != "with") throw NotUnderstood{};
    return read_clauses({"else"});
  }

  /// True if the line ends in a colon and the next one stands deeper.
  bool opens_block(const PythonLine& line) const {
    return word(line.end - 1) == ":" && line.end - line.first > 2 && next_ + 1 < lines_.size() &&
           lines_[next_ + 1].indent > line.indent;
  }

  /// A compound statement that never counts as ending, with the further clauses it may have.
  Flow read_clauses(std::initializer_list<std::string_view> further) {
    const auto indent = lines_[next_].indent;
    Flow flow;
    flow.has_exit = read_clause().flow.has_exit;
    const auto goes_on = [&](std::string_view keyword) { return at(indent, keyword); };
    while (std::ranges::any_of(further, goes_on)) flow.has_exit = read_clause().flow.has_exit || flow.has_exit;
    return flow;
  }

  /// The header of a clause, up to its colon, and the block or the statements behind it.
  Block read_clause() {
    const auto& line = lines_[next_];
    const auto colon = expressions_.header_end(line.first, line.end);
    if (colon >= line.end) throw NotUnderstood{};
    expressions_.read_header(line.first, colon);
    return read_suite(line, colon);
  }

  Block read_suite(const PythonLine& line, std::size_t colon) {
    ++next_;
    if (colon + 1 < line.end) {
      return {span_of(colon + 1, line.end), read_simple_line(colon + 1, line.end, false)};
    }
    if (next_ >= lines_.size() || lines_[next_].indent <= line.indent) throw NotUnderstood{};
    return read_block(lines_[next_].indent);
  }

  /// Statements between semicolons. `whole`: they are a line of their own, which is passed by.
  Flow read_simple_line(std::size_t first, std::size_t end, bool whole) {
    if (whole) ++next_;
    Flow flow;
    while (first < end) {
      const auto stop = expressions_.statement_end(first, end);
      if (stop > first) {
        expressions_.read_statement(first, stop);
        flow.ends = is_exit(word(first));
        flow.has_exit = flow.has_exit || flow.ends;
      }
      first = stop + 1;
    }
    return flow;
  }

  /// An if chain; returns its number.
  std::size_t read_if() {
    const auto number = out_.conditionals.size();
    const auto indent = lines_[next_].indent;
    out_.conditionals.emplace_back();
    PythonConditional chain;
    chain.span.begin = tokens_[lines_[next_].first].begin;
    auto kind = ArmKind::kThen;
    do {
      const auto& line = lines_[next_];
      const auto colon = expressions_.header_end(line.first, line.end);
      const bool tests = kind != ArmKind::kElse;
      if (colon >= line.end || tests != (colon > line.first + 1)) throw NotUnderstood{};
      PythonArm arm;
      arm.kind = kind;
      arm.keyword = tokens_[line.first].begin;
      if (tests) arm.test = span_of(line.first + 1, colon);
      expressions_.read_header(line.first, colon);
      const auto block = read_suite(line, colon);
      arm.body = block.span;
      arm.ends = block.flow.ends;
      chain.has_exit = chain.has_exit || block.flow.has_exit;
      chain.span.end = block.span.end;
      chain.arms.push_back(arm);
      if (kind == ArmKind::kElse) break;
      kind = at(indent, "elif") ? ArmKind::kElif : ArmKind::kElse;
    } while (at(indent, "elif") || at(indent, "else"));
    out_.conditionals[number] = std::move(chain);
    return number;
  }

  std::string_view text_;
  const std::vector<PythonToken>& tokens_;
  const std::vector<PythonLine>& lines_;
  PythonOutline out_;
  PythonExpressions expressions_;
  std::size_t next_ = 0;  // line
  std::size_t depth_ = 0;
};

}  // namespace

const PythonTest* PythonOutline::test_at(std::uint32_t at) const {
  const PythonTest* found = nullptr;
  for (const auto& test : tests) {
    if (test.span.begin > at) break;
    if (test.span.holds(at)) found = &test;
  }
  return found;
}

std::optional<PythonOutline> outline_python(std::string_view text) {
  const auto tokens = python_tokens(text);
  if (!tokens) return std::nullopt;
  try {
    return Reader(text, *tokens).read();
  } catch (const NotUnderstood&) {
    return std::nullopt;
  } catch (const PythonExpressions::NotUnderstood&) {
    return std::nullopt;
  }
}

}  // namespace tl

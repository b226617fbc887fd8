#include "diff/predicate.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace tl {
namespace {

constexpr std::string_view kError = "error";
constexpr std::string_view kFloor = "floor";
constexpr int kMaxDepth = 100;

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

std::string three_digits(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, 3);
  return {buffer.data(), end.ptr};
}

std::string shortest(double value) {
  std::array<char, 32> buffer;
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

bool tells_nonfinite(Metric metric) {
  return metric == Metric::kNonfinite || metric == Metric::kNanOnlyReference || metric == Metric::kNanOnlySubject ||
         metric == Metric::kInfDisagreements;
}

/// What a metric cannot be less than, of a site whose values were not compared.
std::optional<double> bound_of(const DiffSite& site, Metric metric) {
  if (!site.statistics) return std::nullopt;
  switch (metric) {
    case Metric::kMaxAbs:
      return site.statistics->max_abs_at_least;
    case Metric::kMeanAbs:
      return site.statistics->mean_abs_at_least;
    case Metric::kRelL2:
      return site.statistics->rel_l2_at_least;
    default:
      return std::nullopt;
  }
}

}  // namespace

/// Recursive descent: or < and < not < comparison.
class Predicate::Parser {
 public:
  Parser(std::string_view text, Predicate& predicate) : text_(text), predicate_(predicate) {}

  std::size_t parse() {
    const std::size_t root = any(0);
    skip_spaces();
    if (at_ < text_.size()) fail("`and`, `or` or the end");
    return root;
  }

 private:
  std::size_t any(int depth) {
    std::size_t left = all(depth);
    while (take_word("or")) left = add({.kind = Kind::kOr, .left = left, .right = all(depth)});
    return left;
  }

  std::size_t all(int depth) {
    std::size_t left = one(depth);
    while (take_word("and")) left = add({.kind = Kind::kAnd, .left = left, .right = one(depth)});
    return left;
  }

  std::size_t one(int depth) {
    if (depth > kMaxDepth) throw Error(ErrorCode::kUsage, "the predicate nests deeper than " + shortest(kMaxDepth));
    if (take_word("not")) return add({.kind = Kind::kNot, .left = one(depth + 1)});
    if (take('(')) {
      const std::size_t inner = any(depth + 1);
      if (!take(')')) fail("`)`");
      return inner;
    }
    if (take_word("exact")) return add({.kind = Kind::kExact});
    if (take_word("ignore")) return add({.kind = Kind::kIgnore});
    return comparison();
  }

  std::size_t comparison() {
    skip_spaces();
    const std::size_t begin = at_;
    const std::string_view name = word();
    Node node{.kind = Kind::kCompare, .metric = metric_from_name(name)};
    if (!node.metric && name != kError) fail_metric(begin, name);
    if (node.metric && tells_nonfinite(*node.metric)) predicate_.names_nonfinite_ = true;
    node.op = take_operator();
    if (take_word(kFloor)) {
      node.number = 1;
      node.times_floor = true;
    } else {
      node.number = number();
      node.times_floor = take('*');
      if (node.times_floor && !take_word(kFloor)) fail("`floor`");
    }
    return add(node);
  }

  Operator take_operator() {
    skip_spaces();
    const bool less = take('<');
    if (!less && !take('>')) fail("`<=`, `<`, `>=` or `>`");
    const bool equal = at_ < text_.size() && text_[at_] == '=';
    if (equal) ++at_;
    if (less) return equal ? Operator::kAtMost : Operator::kLess;
    return equal ? Operator::kAtLeast : Operator::kGreater;
  }

  double number() {
    skip_spaces();
    double value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || std::isnan(value)) fail("a number");
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  std::size_t add(const Node& node) {
    predicate_.nodes_.push_back(node);
    return predicate_.nodes_.size() - 1;
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  bool take(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string_view word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  bool take_word(std::string_view wanted) {
    skip_spaces();
    const std::size_t begin = at_;
    if (word() == wanted) return true;
    at_ = begin;
    return false;
  }

  [[noreturn]] void fail(std::string_view expected) const {
    const std::string_view rest = text_.substr(at_);
    throw Error(ErrorCode::kUsage,
                "the predicate `" + std::string(text_) + "` has " +
                    (rest.empty() ? std::string("ended") : "`" + std::string(rest) + "`") + " where " +
                    std::string(expected) + " was expected",
                "a predicate reads like: rel_l2 <= 1e-3 and max_abs < 0.1");
  }

  [[noreturn]] void fail_metric(std::size_t begin, std::string_view name) {
    if (name.empty()) {
      at_ = begin;
      fail("a metric");
    }
    std::vector<std::string> names;
    for (const MetricInfo& info : metric_table()) names.emplace_back(info.name);
    names.emplace_back(kError);
    const auto meant = did_you_mean(name, names, 1);
    std::string known;
    for (const std::string& each : names) known += (known.empty() ? "" : ", ") + each;
    throw Error(ErrorCode::kUsage, "there is no metric `" + std::string(name) + "`",
                meant.empty() ? "" : "did you mean `" + meant.front() + "`", "the metrics are " + known);
  }

  std::string_view text_;
  Predicate& predicate_;
  std::size_t at_ = 0;
};

Predicate Predicate::parse(std::string_view text) {
  Predicate predicate;
  predicate.text_ = std::string(text);
  predicate.root_ = Parser(text, predicate).parse();
  return predicate;
}

std::optional<std::string> Predicate::broken_by(const DiffSite& site) const {
  std::string broken;
  const bool ignores = nodes_[root_].kind == Kind::kIgnore;
  if (site.metrics && site.metrics->nonfinite_disagreements > 0 && !names_nonfinite_ && !ignores) {
    return "NaN or infinities disagree in " + std::to_string(site.metrics->nonfinite_disagreements) + " elements";
  }
  if (evaluate(root_, site, broken) != Truth::kNo) return std::nullopt;
  return broken.empty() ? "it does not hold" : broken;
}

Predicate::Truth Predicate::evaluate(std::size_t index, const DiffSite& site, std::string& broken) const {
  const Node& node = nodes_[index];
  switch (node.kind) {
    case Kind::kCompare:
      return compare(node, site, broken);
    case Kind::kAnd:
      return std::min(evaluate(node.left, site, broken), evaluate(node.right, site, broken));
    case Kind::kOr:
      return std::max(evaluate(node.left, site, broken), evaluate(node.right, site, broken));
    case Kind::kNot: {
      std::string ignored;  // what an inner comparison says is the contrary
      const Truth inner = evaluate(node.left, site, ignored);
      return inner == Truth::kUnknown ? inner : inner == Truth::kYes ? Truth::kNo : Truth::kYes;
    }
    case Kind::kExact:
      if (!site.metrics) return Truth::kUnknown;
      if (site.metrics->equal()) return Truth::kYes;
      if (broken.empty()) broken = std::to_string(site.metrics->differing) + " elements differ";
      return Truth::kNo;
    case Kind::kIgnore:
      return Truth::kYes;
  }
  TL_CHECK(false, "every kind of node has a truth value");
}

Predicate::Truth Predicate::compare(const Node& node, const DiffSite& site, std::string& broken) const {
  const bool upwards = node.op == Operator::kGreater || node.op == Operator::kAtLeast;
  std::optional<double> value = site.error;
  bool is_bound = false;
  if (node.metric) {
    value = site.metrics ? metric_value(*site.metrics, *node.metric) : std::nullopt;
    if (!site.metrics) {
      value = bound_of(site, *node.metric);
      is_bound = true;
    }
  } else if (site.evidence == Evidence::kShape) {
    value.reset();
  }
  if (!value) return Truth::kUnknown;
  const double limit = node.times_floor ? node.number * site.noise_floor : node.number;
  const bool holds = node.op == Operator::kLess      ? *value < limit
                     : node.op == Operator::kAtMost  ? *value <= limit
                     : node.op == Operator::kGreater ? *value > limit
                                                     : *value >= limit;
  // A lower bound decides what it decides for every value above it.
  if (is_bound && holds != upwards) return Truth::kUnknown;
  if (holds) return Truth::kYes;
  if (broken.empty()) {
    constexpr std::array kShown = {"<", "<=", ">", ">="};
    broken = std::string(node.metric ? metric_info(*node.metric).name : kError) +
             (is_bound ? " is at least " : " is ") + three_digits(*value) + ", not " +
             kShown[static_cast<std::size_t>(node.op)] + " " + shortest(node.number) +
             (node.times_floor ? " * floor (" + three_digits(limit) + ")" : "");
  }
  return Truth::kNo;
}

}  // namespace tl

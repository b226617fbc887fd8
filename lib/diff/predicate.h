#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diff/report.h"
#include "tensor/metric.h"

namespace tl {

/// A condition on the metrics of a site, as in `rel_l2 <= 1e-3 and max_abs < 0.1` or `rel_l2 <= 20 * floor`:
/// comparisons (`<= < >= >`) of a metric (tensor/metric.h) or `error` with a number, a number times the site's noise
/// floor, or the floor; `and`, `or`, `not`, parentheses; or one of the words `exact` (no element differs in value) and
/// `ignore` (always true).
///
/// Where values were not compared, metrics that statistics bound from below (rel_l2, max_abs, mean_abs) take part by
/// the bound; a comparison that cannot be decided so breaks nothing. NaN and infinities that disagree break every
/// predicate but `ignore` and those that name nonfinite, nan_reference, nan_subject or inf.
class Predicate {
 public:
  /// Throws Error(kUsage) that says what was expected where.
  static Predicate parse(std::string_view text);

  /// nullopt if it holds, else what broke it: `rel_l2 is 0.031, not <= 0.001`.
  std::optional<std::string> broken_by(const DiffSite& site) const;
  const std::string& text() const { return text_; }
  /// It is the word `ignore`.
  bool is_ignore() const { return nodes_.size() == 1 && nodes_[0].kind == Kind::kIgnore; }

 private:
  enum class Kind : std::uint8_t { kCompare, kAnd, kOr, kNot, kExact, kIgnore };
  enum class Operator : std::uint8_t { kLess, kAtMost, kGreater, kAtLeast };
  enum class Truth : std::uint8_t { kNo, kUnknown, kYes };
  struct Node {
    Kind kind = Kind::kCompare;
    Operator op = Operator::kAtMost;
    std::optional<Metric> metric = {};  ///< nullopt: DiffSite::error
    double number = 0;
    bool times_floor = false;
    std::size_t left = 0;  ///< operands: indices of nodes_
    std::size_t right = 0;
  };
  class Parser;

  Truth evaluate(std::size_t node, const DiffSite& site, std::string& broken) const;
  Truth compare(const Node& node, const DiffSite& site, std::string& broken) const;

  std::string text_;
  std::vector<Node> nodes_;
  std::size_t root_ = 0;
  bool names_nonfinite_ = false;
};

}  // namespace tl

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diff/predicate.h"
#include "diff/report.h"

namespace tl {

/// Elements pass if |s - r| <= atol + rtol |r|.
struct ElementTolerance {
  double rtol = 0;
  double atol = 0;
};

/// The outcome of a check that was asked for by name or rule.
struct ToleranceJudgement {
  bool within = true;
  std::string failed_rule;  ///< what was broken, with the value; empty if within
  bool ignored = false;     ///< a rule says `ignore`
};

/// What a user said about how equal is equal. In order, the first that speaks of a site decides:
///  1. `--exact`: no element may differ in value.
///  2. Rules, `--gate` before those of a file, each a regular expression and a Predicate: the first whose expression is
///     found in the module path, the label or the function name of either side.
///  3. `--rtol NAME=VALUE`, `--atol NAME=VALUE`: NAME is a module path (that module and all inside it), a label or a
///     function name; of several the last one given. What is not named there comes from 4, else is 0.
///  4. `--rtol VALUE`, `--atol VALUE`; one that is not given is 0.
/// Sites that none speaks of are judged by their noise floor (judge_by_floor).
class Tolerances {
 public:
  Tolerances();
  ~Tolerances();
  Tolerances(Tolerances&&) noexcept;
  Tolerances& operator=(Tolerances&&) noexcept;

  void set_exact();
  /// The argument of --rtol and --atol: `1e-3` or `blocks.7=1e-3`. Throws Error(kUsage).
  void add_rtol(std::string_view argument);
  void add_atol(std::string_view argument);
  /// The argument of --gate: a predicate for all sites, or a line of a rules file. Throws Error(kUsage).
  void add_gate(std::string_view argument);
  /// A rules file: a line each of a regular expression without spaces (RE2, search semantics) and a predicate; empty
  /// lines and those that begin with # are skipped. `name` is that of the file for messages. Throws Error(kUsage).
  void add_rules(std::string_view text, std::string_view name);

  /// True if nothing was said.
  bool empty() const;
  /// True if `site` is judged element by element, with the tolerances its values must have been compared with.
  std::optional<ElementTolerance> element_tolerance(const DiffSite& site) const;
  /// nullopt if nothing speaks of the site, or only element tolerances do and its values were not compared.
  std::optional<ToleranceJudgement> judge(const DiffSite& site) const;
  /// All of it in words, for DiffReport::tolerance_rule: `|s - r| <= 1e-05 + 0.001 |r|; 3 rules of tol.txt`.
  std::string description() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// The least tolerances that would have let every compared site of a report pass: one of them is enough. Infinite where
/// none would.
struct NeededTolerances {
  double error = 0;  ///< of DiffSite
  double atol = 0;   ///< at the rtol the elements were compared with
  double rtol = 0;   ///< at the atol they were compared with
};
NeededTolerances needed_tolerances(const DiffReport& report);

}  // namespace tl

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "torch/declared_differences.h"
#include "torch/reference_run.h"
#include "trace/trace.h"

namespace tl::test {

/// What kind of file a recording is of.
enum class Artifact : std::uint8_t { kScript, kTrace, kExport };
Artifact artifact_named(std::string_view name);

/// Compares a trace with Python's recording of the same model, op by op, allowing the declared differences and nothing
/// else. One line a misfit.
class ReferenceComparison {
 public:
  /// Walks both recordings in order and pairs their ops.
  ReferenceComparison(const ReferenceRun& reference, const Trace& trace, Artifact artifact);

  /// Parents, modules, parameters, places, values, grouping and labels.
  void compare_all();

  const std::vector<std::string>& misfits() const { return misfits_; }
  /// Labels that were compared with the reference's own.
  int labels_taken_over() const { return labels_taken_over_; }

 private:
  struct Match {
    std::vector<OpId> parts;         ///< in order; the last has the value; empty if left out
    std::optional<OpId> stands_for;  ///< what a reader of the reference's op reads here
    Effect effect = Effect::kRenamed;
    bool as_declared = false;  ///< some difference applies
  };
  struct Part {
    std::size_t reference;
    std::size_t position;
  };

  void compare_parents();
  void compare_modules();
  void compare_params();
  void compare_places();
  void compare_values();
  /// Grouping as in the reference. Labels by the same rule, counted over what this file holds; where nothing differs up
  /// to a Layer, its label is the reference's own.
  void compare_layers();
  void match_all();
  bool match_one(std::size_t row);
  bool is_left_out(std::size_t row) const;
  bool match_chain(std::size_t row, const Difference& naming);
  bool may_follow(OpId op, const Match& match) const;
  void take(std::size_t row);
  void misfit(std::size_t row, const std::string& what);
  std::string at_cursor() const;
  std::vector<OpId> outer_parents(const Match& match) const;
  bool is_handed_on(OpId expected, OpId actual) const;
  std::string value_misfit(const ReferenceValue& expected, OpId op) const;
  std::string written_misfit(const ReferenceValue& expected, const Match& match) const;
  void compare_grouping();
  void compare_labels();
  ReferencePlace place_of(OpId op) const;
  /// True if the place is one around the op's, as a rule declares for its function.
  bool is_placed_outside(const ReferenceOp& op, const ReferencePlace& place) const;
  /// The value that a traced file holds of a buffer which the model writes, at its first read; null elsewhere.
  const ReferenceValue* moved_on_state(std::size_t row) const;
  std::string expected_layer_type(const ReferenceOp& op, OpId part) const;

  const ReferenceRun& reference_;
  const Trace& trace_;
  Artifact artifact_;
  std::vector<Match> matches_;  ///< by reference row
  std::vector<Part> part_of_;   ///< by Op
  std::size_t cursor_ = 0;      ///< next Op to pair
  std::vector<std::string> misfits_;
  int labels_taken_over_ = 0;
};

}  // namespace tl::test

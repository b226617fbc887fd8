#include "postprocess/branch_arms.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/python_tokens.h"
#include "core/text.h"
#include "postprocess/branch_frames.h"

namespace tl {
namespace {

constexpr std::size_t kTestColumns = 120;  // of a test's text that are kept

std::size_t index(std::int32_t row) { return static_cast<std::size_t>(row); }

/// The text of a test on one line: blanks, line ends and comments between tokens are one space.
std::string on_one_line(std::string_view text) {
  const auto tokens = python_tokens(text);
  if (!tokens) return elide(text, kTestColumns);
  std::string out;
  std::size_t end = 0;
  for (const auto& token : tokens->tokens) {
    if (!out.empty() && token.begin > end) out += ' ';
    out += text.substr(token.begin, token.end - token.begin);
    end = token.end;
    if (out.size() > 4 * kTestColumns) break;
  }
  return elide(out, kTestColumns);
}

class ArmNaming {
 public:
  ArmNaming(Trace& trace, SourcePlaces& places) : trace_(trace), branches_(trace.branches), places_(places) {}

  void run() {
    match_conditionals();
    make_conditionals();
    choose_arms();
    find_next_instances();
    set_ranges();
    nest();
    find_parent_arms();
  }

 private:
  /// A row of the new table of conditionals.
  struct Merged {
    ConditionalMatch match;
    std::size_t old_row = 0;  ///< the first one that is merged into it
    std::int32_t arms_begin = 0;
    std::int32_t num_arms = 0;
  };

  /// Tests of one chain at one place of the calls are one conditional. What no text tells of stays by itself.
  void match_conditionals() {
    const auto& old = trace_.conditionals;
    std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::int32_t> rows;
    for (std::size_t row = 0; row < old.instruction.size(); ++row) {
      const auto match = places_.match(old.instruction[row]);
      const auto fresh = static_cast<std::int32_t>(merged_.size());
      auto at = fresh;
      if (match.conditional >= 0) {
        at = rows.try_emplace({match.text, match.conditional, old.site_context[row]}, fresh).first->second;
      }
      if (at == fresh) merged_.push_back({match, row, 0, 0});
      matches_.push_back(match);
      merged_row_.push_back(at);
    }
  }

  void make_conditionals() {
    const auto else_runs = else_sides();
    ConditionalsTable fresh;
    for (std::size_t row = 0; row < merged_.size(); ++row) {
      auto& merged = merged_[row];
      merged.arms_begin = static_cast<std::int32_t>(trace_.conditional_arms.kind.size());
      add_arms(static_cast<std::int32_t>(row), merged, else_runs[row]);
      merged.num_arms = static_cast<std::int32_t>(trace_.conditional_arms.kind.size()) - merged.arms_begin;
      const auto [line, line_end] = lines_of(merged);
      fresh.instruction.push_back(trace_.conditionals.instruction[merged.old_row]);
      fresh.site_context.push_back(trace_.conditionals.site_context[merged.old_row]);
      fresh.num_arms.push_back(merged.num_arms);
      fresh.then_count.push_back(0);
      fresh.else_count.push_back(0);
      fresh.kind.push_back(static_cast<std::uint8_t>(merged.match.kind));
      fresh.line.push_back(line);
      fresh.line_end.push_back(line_end);
      fresh.parent_arm.push_back(-1);
    }
    trace_.conditionals = std::move(fresh);
  }

  /// Whether the else block of a conditional holds instructions, or Ops ran in it.
  std::vector<bool> else_sides() const {
    std::vector<bool> sides(merged_.size(), false);
    for (std::size_t row = 0; row < matches_.size(); ++row) {
      const auto instruction = trace_.conditionals.instruction[row];
      if (instruction < 0) continue;
      if ((trace_.instructions.flags[index(instruction)] & kInstrElseBlock) != 0) sides[index(merged_row_[row])] = true;
    }
    for (std::size_t row = 0; row < branches_.arm.size(); ++row) {
      const bool runs_ops = branches_.arm[row] == 1 && branches_.first_op[row] < branches_.end_op[row];
      if (runs_ops) sides[index(merged_row_[index(branches_.conditional[row])])] = true;
    }
    return sides;
  }

  std::pair<std::int32_t, std::int32_t> lines_of(const Merged& merged) {
    if (const auto* source = source_of(merged.match)) {
      return {places_.line_of(merged.match.text, source->span.begin),
              places_.line_of(merged.match.text, source->span.end - 1)};
    }
    const auto instruction = trace_.conditionals.instruction[merged.old_row];
    const auto site = instruction < 0 ? -1 : trace_.instructions.call_site[index(instruction)];
    const auto line = site < 0 ? 0 : trace_.call_sites.line[index(site)];
    return {line, line};
  }

  const PythonConditional* source_of(const ConditionalMatch& match) {
    return match.conditional < 0 ? nullptr : &places_.outline(match.text)->conditionals[index(match.conditional)];
  }

  void add_arms(std::int32_t row, const Merged& merged, bool else_side) {
    if (const auto* source = source_of(merged.match)) {
      std::int32_t elif = 0;
      for (const auto& arm : source->arms) {
        const auto number = arm.kind == ArmKind::kElif ? ++elif : 0;
        add_arm(row, arm.kind, number);
        auto& arms = trace_.conditional_arms;
        const auto at = arms.kind.size() - 1;
        arms.line.mut(at) = places_.line_of(merged.match.text, arm.body.begin);
        arms.line_end.mut(at) = places_.line_of(merged.match.text, arm.body.end - 1);
        if (!arm.test.empty()) {
          arms.test.mut(at) = trace_.strings.intern(on_one_line(places_.text(merged.match.text, arm.test)));
        }
      }
    } else if (merged.match.kind == ConditionalKind::kCond) {
      add_arm(row, ArmKind::kThen, 0);
      add_arm(row, ArmKind::kElse, 0);
    } else if (merged.match.kind == ConditionalKind::kUnknown) {
      add_arm(row, ArmKind::kTrueSide, 0);
      if (else_side) add_arm(row, ArmKind::kFalseSide, 0);
    }
  }

  void add_arm(std::int32_t conditional, ArmKind kind, std::int32_t elif) {
    auto& arms = trace_.conditional_arms;
    arms.conditional.push_back(conditional);
    arms.kind.push_back(static_cast<std::uint8_t>(kind));
    arms.elif_index.push_back(elif);
    arms.line.push_back(0);
    arms.line_end.push_back(0);
    arms.test.push_back(-1);
    arms.evaluated.push_back(0);
    arms.fired.push_back(0);
    arms.test_op.push_back(-1);
  }

  /// The arm that an executed test chose, -1 for none; and what conditional_arms counts.
  void choose_arms() {
    auto& arms = trace_.conditional_arms;
    for (std::size_t row = 0; row < branches_.arm.size(); ++row) {
      const auto old = index(branches_.conditional[row]);
      const auto& merged = merged_[index(merged_row_[old])];
      const auto test = matches_[old].test;
      find_test_op(row, old);
      branches_.conditional.mut(row) = merged_row_[old];
      const auto arm = merged.num_arms == 0 ? -1 : arm_of_side(merged, test, branches_.arm[row] == 0);
      branches_.conditional_arm.mut(row) = arm;
      auto& counts =
          branches_.arm[row] == 0 && test == 0 ? trace_.conditionals.then_count : trace_.conditionals.else_count;
      const bool goes_on = branches_.arm[row] == 1 && arm < 0 && !is_last_test(merged, test);
      if (!goes_on) ++counts.mut(index(merged_row_[old]));
      if (merged.num_arms == 0) continue;
      const auto tested = index(merged.arms_begin + test);
      if (arms.evaluated.mut(tested)++ == 0) arms.test_op.mut(tested) = branches_.test_op[row];
      if (arm >= 0) ++arms.fired.mut(index(arm));
    }
  }

  /// `and` and `or` end in a constant where the first operand decides: then the Op that decided it decided the test.
  void find_test_op(std::size_t row, std::size_t old) {
    const auto& match = matches_[old];
    if (match.kind == ConditionalKind::kBoolOp && branches_.test_op[row] >= 0) last_bool_op_ = {row, old};
    const auto* source = source_of(match);
    if (source == nullptr || branches_.test_op[row] >= 0 || !last_bool_op_) return;
    const auto [operand, operand_old] = *last_bool_op_;
    const auto& inner = matches_[operand_old];
    const auto& contexts = trace_.conditionals.site_context;
    const bool same_run = branches_.module_call[operand] == branches_.module_call[row] &&
                          contexts[index(merged_row_[operand_old])] == contexts[index(merged_row_[old])];
    if (!same_run || inner.text != match.text || !source->arms[index(match.test)].test.holds(inner.at)) return;
    branches_.test_op.mut(row) = branches_.test_op[operand];
  }

  bool is_last_test(const Merged& merged, std::int32_t test) const {
    const auto next = index(merged.arms_begin + test + 1);
    return test + 1 >= merged.num_arms ||
           trace_.conditional_arms.kind[next] != static_cast<std::uint8_t>(ArmKind::kElif);
  }

  std::int32_t arm_of_side(const Merged& merged, std::int32_t test, bool yes) const {
    if (yes) return merged.arms_begin + test;
    if (!is_last_test(merged, test) || test + 1 >= merged.num_arms) return -1;
    return merged.arms_begin + test + 1;  // else, fall-through or the other side
  }

  /// Per row, the first Op after the next time that its conditional begins to run; the number of Ops if there is none.
  void find_next_instances() {
    next_instance_.resize(branches_.arm.size());
    std::vector<std::int32_t> next(merged_.size(), static_cast<std::int32_t>(trace_.num_ops()));
    for (auto row = branches_.arm.size(); row-- > 0;) {
      auto& upcoming = next[index(branches_.conditional[row])];
      next_instance_[row] = upcoming;
      upcoming = branches_.first_op[row];
    }
  }

  /// Leaves each row the Ops that stand in its arm. Rows without an arm have none.
  void set_ranges() {
    const std::vector<std::int32_t> ends(branches_.end_op.begin(), branches_.end_op.end());
    for (std::size_t row = 0; row < branches_.arm.size(); ++row) {
      const auto arm = branches_.conditional_arm[row];
      auto& end = branches_.end_op.mut(row);
      if (arm < 0) {
        end = branches_.first_op[row];
        continue;
      }
      const auto& merged = merged_[index(branches_.conditional[row])];
      const auto* source = source_of(merged.match);
      if (source == nullptr) continue;
      const auto& there = source->arms[index(arm - merged.arms_begin)];
      if (there.kind == ArmKind::kFallthrough) {
        end = end_of_fallthrough(row, there, ends);
      } else if (source->has_exit && !there.ends) {
        end = end_in_arm(row, there);
      }
    }
  }

  Frame frame_of(std::size_t row) const {
    const auto conditional = index(branches_.conditional[row]);
    return {branches_.module_call[row], trace_.conditionals.site_context[conditional], merged_[conditional].match.text};
  }

  /// Behind the last Op of a block that stands in the arm by the text: what else is there was moved into the block,
  /// because another arm leaves.
  std::int32_t end_in_arm(std::size_t row, const PythonArm& arm) {
    const auto frame = frame_of(row);
    for (auto op = branches_.end_op[row]; op > branches_.first_op[row]; --op) {
      const auto position = position_in_frame(trace_, places_, index(op - 1), frame);
      if (position.kind == FramePosition::Kind::kAt && arm.body.holds(position.at)) return op;
    }
    return branches_.first_op[row];
  }

  /// The Ops from the last test on that stand in what follows the chain in its block. In the false block of that test
  /// nothing else can be; behind it, only what the text tells.
  std::int32_t end_of_fallthrough(std::size_t row, const PythonArm& arm, const std::vector<std::int32_t>& ends) {
    const auto frame = frame_of(row);
    auto bound = std::min(next_instance_[row], static_cast<std::int32_t>(trace_.num_ops()));
    if (frame.module_call >= 0) bound = std::min(bound, trace_.module_calls.end_op[index(frame.module_call)]);
    for (auto up = branches_.parent[row]; up >= 0; up = branches_.parent[index(up)]) {
      if (branches_.conditional[index(up)] == branches_.conditional[row]) continue;
      bound = std::min(bound, ends[index(up)]);
      break;
    }
    auto end = branches_.first_op[row];
    for (auto op = branches_.first_op[row]; op < bound; ++op) {
      const auto position = position_in_frame(trace_, places_, index(op), frame);
      if (position.kind == FramePosition::Kind::kOutside) break;
      const bool at = position.kind == FramePosition::Kind::kAt;
      if (at && !arm.body.holds(position.at)) break;
      if (at || op < ends[row]) end = op + 1;
    }
    return end;
  }

  /// Parents are the arms that hold a row by the new ranges.
  void nest() {
    std::vector<std::size_t> open;
    for (std::size_t row = 0; row < branches_.arm.size(); ++row) {
      const auto first = branches_.first_op[row];
      while (!open.empty() && branches_.end_op[open.back()] <= first) open.pop_back();
      branches_.parent.mut(row) = open.empty() ? -1 : static_cast<std::int32_t>(open.back());
      auto& end = branches_.end_op.mut(row);
      if (!open.empty()) end = std::min(end, branches_.end_op[open.back()]);
      if (end > first) open.push_back(row);
    }
  }

  /// By the text where that tells; else the executed arm around its first run.
  void find_parent_arms() {
    std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::int32_t> rows;
    for (std::size_t row = 0; row < merged_.size(); ++row) {
      const auto& match = merged_[row].match;
      if (match.conditional < 0) continue;
      rows[{match.text, match.conditional, trace_.conditionals.site_context[row]}] = static_cast<std::int32_t>(row);
    }
    std::vector<bool> seen(merged_.size(), false);
    for (std::size_t branch = 0; branch < branches_.conditional.size(); ++branch) {
      const auto row = index(branches_.conditional[branch]);
      if (seen[row]) continue;
      seen[row] = true;
      const auto& match = merged_[row].match;
      auto arm = match.text < 0 ? -1 : arm_around(match, trace_.conditionals.site_context[row], rows);
      if (arm >= 0 && index(trace_.conditional_arms.conditional[index(arm)]) >= row) arm = -1;  // a text that lies
      if (arm < 0 && branches_.parent[branch] >= 0) arm = branches_.conditional_arm[index(branches_.parent[branch])];
      trace_.conditionals.parent_arm.mut(row) = arm;
    }
  }

  /// The innermost arm, of a conditional that ran, in whose body a place of the text lies.
  std::int32_t arm_around(const ConditionalMatch& match, std::int32_t context,
                          const std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::int32_t>& rows) {
    std::int32_t found = -1;
    std::uint32_t begin = 0;
    const auto& conditionals = places_.outline(match.text)->conditionals;
    for (std::size_t number = 0; number < conditionals.size(); ++number) {
      const auto row = rows.find({match.text, static_cast<std::int32_t>(number), context});
      if (row == rows.end() || static_cast<std::int32_t>(number) == match.conditional) continue;
      const auto& arms = conditionals[number].arms;
      for (std::size_t arm = 0; arm < arms.size(); ++arm) {
        if (!arms[arm].body.holds(match.at) || (found >= 0 && arms[arm].body.begin < begin)) continue;
        begin = arms[arm].body.begin;
        found = merged_[index(row->second)].arms_begin + static_cast<std::int32_t>(arm);
      }
    }
    return found;
  }

  Trace& trace_;
  BranchesTable& branches_;
  SourcePlaces& places_;
  std::vector<ConditionalMatch> matches_;  // by old row of conditionals
  std::vector<std::int32_t> merged_row_;   // by old row of conditionals
  std::vector<Merged> merged_;
  std::vector<std::int32_t> next_instance_;                          // by row of branches
  std::optional<std::pair<std::size_t, std::size_t>> last_bool_op_;  // that an Op decided: row, old row of conditionals
};

}  // namespace

void name_arms(Trace& trace, SourcePlaces& places) { ArmNaming(trace, places).run(); }

}  // namespace tl

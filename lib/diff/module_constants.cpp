#include "diff/module_constants.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "diff/argument_rules.h"

namespace tl {
namespace {

std::size_t row_of(std::int32_t value) { return static_cast<std::size_t>(value); }

constexpr std::array<std::string_view, 3> kTraining = {"p", "dropout", "momentum"};

std::string_view last_name(std::string_view class_name) { return class_name.substr(class_name.rfind('.') + 1); }

/// A word against a number is another way to say it (mode="mean" and mode=1), not another value.
bool are_comparable(std::string_view a, std::string_view b) { return a.starts_with('"') == b.starts_with('"'); }

/// Arguments that only share their names with a constant of a module: factors of sums (alpha of LocalResponseNorm is no
/// alpha of add), a bias that is a tensor; and what forward does not read.
bool means_another(std::string_view name, const OpCall& call) {
  if (name == "alpha" || name == "beta") return call.find("other") || call.find("mat1") || call.find("batch1");
  return name == "bias" || (name == "padding_idx" && call.operator_name() == "aten::embedding");
}

/// The value that the operation got under the name of the constant, where that tells something; null otherwise. None
/// leaves the value to forward.
const OpArgument* counterpart(const OpArgument& constant, const OpCall& call) {
  if (constant.text == "None" || means_another(constant.name, call)) return nullptr;
  const auto* argument = call.find(constant.name);
  if (!argument || argument->is_tensor || argument->text == "none") return nullptr;
  if (!are_comparable(constant.text, argument->text) || is_immaterial(constant, *argument, call, call)) return nullptr;
  return argument;
}

/// A convolution that pads by another mode than with zeros does so before the operator, which then gets 0.
bool pads_itself(const std::vector<OpCall>& calls) {
  return std::ranges::any_of(
      calls, [](const OpCall& call) { return call.operator_name().find("pad") != std::string_view::npos; });
}

}  // namespace

ModuleConstants::ModuleConstants(const Trace& trace) : trace_(trace), begin_(trace.module_calls.module.size() + 1, 0) {
  for (std::size_t op = 0; op < trace.num_ops(); ++op) ++begin_[row_of(trace.ops.module_call[op]) + 1];
  for (std::size_t call = 1; call < begin_.size(); ++call) begin_[call] += begin_[call - 1];
  auto next = begin_;
  ops_.resize(trace.num_ops());
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    ops_[next[row_of(trace.ops.module_call[op])]++] = static_cast<std::uint32_t>(op);
  }
}

std::vector<ArgumentDifference> ModuleConstants::differences(const DumpModule& module, OpId op) const {
  std::vector<ArgumentDifference> differences;
  if (module.constants.empty() || !module.qualified_class.starts_with("torch.nn.")) return differences;
  const auto call = row_of(trace_.ops.module_call[op.index()]);
  const auto class_name = trace_.strings[trace_.modules.class_name[row_of(trace_.module_calls.module[call])]];
  if (last_name(class_name) != last_name(module.class_name)) return differences;
  std::vector<OpCall> calls;
  for (auto at = begin_[call]; at < begin_[call + 1]; ++at) {
    if (trace_.ops.instruction[ops_[at]] >= 0) calls.push_back({trace_, OpId{ops_[at]}});
  }
  for (const auto& [name, value] : module.constants) {
    if (name == "padding" && pads_itself(calls)) continue;
    const OpArgument constant{name, value, {}, false};
    const ArgumentMeaning* found = nullptr;
    ArgumentMeaning last;
    bool same = false;
    for (const auto& executed : calls) {
      const auto* argument = counterpart(constant, executed);
      if (!argument) continue;
      last = meaning_of(*argument, executed);
      found = &last;
      same = same || same_literal(meaning_of(constant, executed).value, last.value);
    }
    if (found && !same) differences.push_back({name, value, found->shown});
  }
  return differences;
}

std::vector<ArgumentDifference> constant_differences(const DumpModule& reference, const DumpModule& subject,
                                                     bool trains) {
  std::vector<ArgumentDifference> differences;
  for (const auto& [name, value] : reference.constants) {
    if (name == "inplace" || (!trains && std::ranges::find(kTraining, name) != kTraining.end())) continue;
    const auto other = std::ranges::find(subject.constants, name, &std::pair<std::string, std::string>::first);
    if (other == subject.constants.end() || !are_comparable(value, other->second)) continue;
    if (!same_literal(value, other->second)) differences.push_back({name, value, other->second});
  }
  return differences;
}

}  // namespace tl

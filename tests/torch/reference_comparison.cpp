#include "torch/reference_comparison.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>

#include "tensor/host_tensor.h"
#include "tensor/statistics.h"

namespace tl::test {
namespace {

constexpr double kRelative = 1e-5;

bool agree(double left, double right, double scale) {
  return std::abs(left - right) <= kRelative * std::max({std::abs(left), std::abs(right), scale});
}

HostTensor value_of(const Trace& trace, OpId op) {
  const auto payload = trace.ops.payload[op.index()];
  return trace.payload_source->tensor(PayloadId{static_cast<std::uint32_t>(payload)})->to_host().at(0).tensor;
}

/// layer_type as the design document writes it: lower case, no underscores.
std::string type_of(std::string_view func_name) {
  std::string type;
  for (const char c : func_name) {
    if (c != '_') type += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return type;
}

std::string stem_of(OpKind kind) {
  switch (kind) {
    case OpKind::kInput:
      return "input";
    case OpKind::kBuffer:
      return "buffer";
    case OpKind::kOutput:
      return "output";
    case OpKind::kOperation:
      break;
  }
  return {};
}

template <typename Range, typename Text>
std::string joined(const Range& range, Text text) {
  std::string result;
  for (const auto& element : range) result += (result.empty() ? "" : ", ") + std::string(text(element));
  return result.empty() ? "none" : result;
}

std::string text_of(const ReferencePlace& place) {
  return place.file + ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
}

std::string number_misfit(const char* name, double expected, double actual, double scale) {
  if (agree(expected, actual, scale)) return {};
  std::ostringstream text;
  text.precision(9);
  text << " " << name << " is " << actual << ", not " << expected;
  return text.str();
}

}  // namespace

Artifact artifact_named(std::string_view name) {
  if (name == "script") return Artifact::kScript;
  return name == "trace" ? Artifact::kTrace : Artifact::kExport;
}

ReferenceComparison::ReferenceComparison(const ReferenceRun& reference, const Trace& trace, Artifact artifact)
    : reference_(reference), trace_(trace), artifact_(artifact), matches_(reference.ops.size()) {
  match_all();
}

void ReferenceComparison::compare_all() {
  compare_parents();
  compare_modules();
  compare_params();
  compare_places();
  compare_values();
  compare_layers();
}

void ReferenceComparison::misfit(std::size_t row, const std::string& what) {
  misfits_.push_back(reference_.ops[row].label + ": " + what);
}

std::string ReferenceComparison::at_cursor() const {
  return cursor_ < trace_.num_ops() ? op_label(trace_, OpId{static_cast<std::uint32_t>(cursor_)}) : "the end";
}

void ReferenceComparison::match_all() {
  part_of_.assign(trace_.num_ops(), {reference_.ops.size(), 0});
  for (std::size_t row = 0; row < reference_.ops.size(); ++row) {
    if (!match_one(row)) return;
  }
  if (cursor_ < trace_.num_ops()) misfits_.push_back("Python has nothing for " + at_cursor() + " and what follows");
}

bool ReferenceComparison::is_left_out(std::size_t row) const {
  const auto& op = reference_.ops[row];
  if (op.kind == OpKind::kBuffer) {
    return op.unchanged_write && op.parents.size() == 1 &&
           is_declared(Effect::kLeftOut, reference_.ops[op.parents[0]].func_name);
  }
  if (op.kind != OpKind::kOperation || op.reaches_output || !is_declared(Effect::kLeftOut, "*")) return false;
  const auto* naming = naming_of(op.func_name);
  const auto names = naming ? naming->last : std::string_view(op.func_name);
  return std::ranges::none_of(reference_.file_ops, [&](std::string_view name) {
    return name.starts_with("aten::") && has_word(names, name.substr(6));
  });
}

bool ReferenceComparison::match_one(std::size_t row) {
  const auto& op = reference_.ops[row];
  auto& match = matches_[row];
  if (is_left_out(row)) {
    match.effect = Effect::kLeftOut;
    match.as_declared = true;
    for (std::size_t earlier = 0; op.kind == OpKind::kBuffer && earlier < row; ++earlier) {
      const auto& other = reference_.ops[earlier];
      if (other.kind == OpKind::kBuffer && other.address == op.address) match.stands_for = matches_[earlier].stands_for;
    }
    return true;
  }
  if (cursor_ >= trace_.num_ops()) return misfit(row, "has no Op here"), false;
  const OpId next{static_cast<std::uint32_t>(cursor_)};
  if (static_cast<OpKind>(trace_.ops.kind[cursor_]) != op.kind) return misfit(row, "stands at " + at_cursor()), false;
  if (op.kind != OpKind::kOperation) {
    const std::string address(trace_.strings[trace_.ops.address[cursor_]]);
    if (address != op.address) return misfit(row, "is at " + address + ", not " + op.address), false;
    take(row);
    return true;
  }
  const auto* naming = naming_of(op.func_name);
  if (naming && naming->effect != Effect::kRenamed) return match_chain(row, *naming);
  const auto name = func_name(trace_, next);
  if (naming ? !has_word(naming->last, name) : name != op.func_name) {
    return misfit(row, "is a " + op.func_name + ", " + at_cursor() + " a " + std::string(name)), false;
  }
  const bool same_slot = op.slot ? trace_.ops.slot[cursor_] == *op.slot : trace_.ops.num_slots[cursor_] == 1;
  if (!same_slot) misfit(row, "is another output slot than " + at_cursor());
  match.as_declared = type_of(name) != type_of(op.func_name);
  take(row);
  return true;
}

void ReferenceComparison::take(std::size_t row) {
  const OpId op{static_cast<std::uint32_t>(cursor_)};
  part_of_[cursor_++] = {row, matches_[row].parts.size()};
  matches_[row].parts.push_back(op);
  matches_[row].stands_for = op;
}

bool ReferenceComparison::may_follow(OpId op, const Match& match) const {
  if (match.parts.empty()) return true;
  const auto previous = match.parts.back();
  const auto own = parents(trace_, op);
  return !own.empty() && own[0] == previous && place_of(op) == place_of(previous);
}

ReferencePlace ReferenceComparison::place_of(OpId op) const {
  const auto instruction = static_cast<std::size_t>(trace_.ops.instruction[op.index()]);
  if (trace_.instructions.call_site[instruction] < 0) return {};
  const auto site = static_cast<std::size_t>(trace_.instructions.call_site[instruction]);
  const auto& sites = trace_.call_sites;
  const std::filesystem::path file(trace_.strings[sites.file[site]]);
  return {file.filename().string(), sites.line[site], sites.column[site]};
}

bool ReferenceComparison::match_chain(std::size_t row, const Difference& naming) {
  auto& match = matches_[row];
  match.effect = naming.effect;
  match.as_declared = true;
  while (cursor_ < trace_.num_ops()) {
    const OpId next{static_cast<std::uint32_t>(cursor_)};
    const auto name = func_name(trace_, next);
    const auto has_value = [&] { return value_misfit(reference_.ops[row].value, next).empty(); };
    const bool is_last = has_word(naming.last, name) && (naming.effect == Effect::kWrittenThrough || has_value());
    if ((!is_last && !has_word(naming.steps, name)) || !may_follow(next, match)) break;
    take(row);
    if (is_last) return true;
  }
  const auto& name = reference_.ops[row].func_name;
  misfit(row, "is a " + name + " that no " + std::string(naming.last) + " ends at " + at_cursor());
  return false;
}

std::vector<OpId> ReferenceComparison::outer_parents(const Match& match) const {
  std::vector<OpId> result;
  for (const auto part : match.parts) {
    for (const auto parent : parents(trace_, part)) {
      if (std::ranges::find(match.parts, parent) != match.parts.end()) continue;
      if (std::ranges::find(result, parent) == result.end()) result.push_back(parent);
    }
  }
  return result;
}

bool ReferenceComparison::is_handed_on(OpId expected, OpId actual) const {
  const bool written = static_cast<OpKind>(trace_.ops.kind[expected.index()]) == OpKind::kBuffer &&
                       (trace_.ops.flags[expected.index()] & kOpBufferWrite) != 0;
  const bool in_place = (trace_.ops.flags[actual.index()] & kOpInPlace) != 0;
  return artifact_ != Artifact::kScript && written && in_place && parents(trace_, expected) == std::vector{actual};
}

void ReferenceComparison::compare_parents() {
  for (std::size_t row = 0; row < matches_.size(); ++row) {
    const auto& match = matches_[row];
    if (match.parts.empty()) continue;
    std::vector<OpId> expected;
    for (const auto parent : reference_.ops[row].parents) {
      const auto op = matches_[parent].stands_for;
      if (op && std::ranges::find(expected, *op) == expected.end()) expected.push_back(*op);
    }
    auto actual = outer_parents(match);
    for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
      if (is_handed_on(expected[i], actual[i])) actual[i] = expected[i];
    }
    if (actual == expected) continue;
    const auto label = [&](OpId op) { return op_label(trace_, op); };
    misfit(row, "has parents " + joined(actual, label) + ", not " + joined(expected, label));
  }
}

void ReferenceComparison::compare_modules() {
  for (std::size_t row = 0; row < matches_.size(); ++row) {
    for (const auto part : matches_[row].parts) {
      std::vector<std::string> stack;
      for (const auto call : module_stack(trace_, part)) stack.push_back(module_call_label(trace_, call));
      if (stack == reference_.ops[row].modules) continue;
      const auto text = [](const std::string& label) { return label; };
      misfit(row, "runs in " + joined(stack, text) + ", not in " + joined(reference_.ops[row].modules, text));
    }
  }
  std::map<std::string, ReferenceModule> called;
  for (std::size_t module = 0; module < trace_.modules.address.size(); ++module) {
    if (trace_.modules.num_calls[module] == 0) continue;
    called[std::string(trace_.strings[trace_.modules.address[module]])] = {
        std::string(trace_.strings[trace_.modules.all_addresses[module]]), trace_.modules.num_calls[module]};
  }
  if (called == reference_.modules) return;
  const auto text = [](const auto& module) {
    return module.first + " (" + module.second.all_addresses + ") x" + std::to_string(module.second.num_calls);
  };
  misfits_.push_back("called modules are " + joined(called, text) + ", not " + joined(reference_.modules, text));
}

void ReferenceComparison::compare_params() {
  std::vector<std::vector<std::string>> used(reference_.ops.size() + 1);
  for (std::size_t use = 0; use < trace_.param_uses.op.size(); ++use) {
    const auto param = static_cast<std::size_t>(trace_.param_uses.param[use]);
    if (trace_.params.kind[param] == static_cast<std::uint8_t>(ParamKind::kConstant)) continue;
    const std::string address(trace_.strings[trace_.params.address[param]]);
    auto& names = used[part_of_[static_cast<std::size_t>(trace_.param_uses.op[use])].reference];
    names.push_back(address.substr(address.rfind('.') + 1));
  }
  for (std::size_t row = 0; row < reference_.ops.size(); ++row) {
    if (used[row] == reference_.ops[row].params) continue;
    const auto text = [](const std::string& name) { return name; };
    misfit(row, "reads " + joined(used[row], text) + ", not " + joined(reference_.ops[row].params, text));
  }
}

bool ReferenceComparison::is_placed_outside(const ReferenceOp& op, const ReferencePlace& place) const {
  if (artifact_ == Artifact::kTrace) return false;
  const bool exported = artifact_ == Artifact::kExport;
  if (!is_declared(exported ? Effect::kPlacedInForward : Effect::kPlacedOutside, op.func_name)) return false;
  return std::ranges::any_of(op.places, [&](ReferencePlace around) {
    if (exported) around.column = -1;
    return around == place;
  });
}

void ReferenceComparison::compare_places() {
  for (std::size_t row = 0; row < matches_.size(); ++row) {
    const auto& op = reference_.ops[row];
    if (op.kind != OpKind::kOperation) continue;
    for (const auto part : matches_[row].parts) {
      const auto place = place_of(part);
      auto expected = op.places.back();
      if (is_placed_outside(op, place)) continue;
      if (artifact_ != Artifact::kScript) expected.column = -1;
      if (place != expected) misfit(row, "stands at " + text_of(place) + ", not at " + text_of(expected));
    }
  }
}

std::string ReferenceComparison::value_misfit(const ReferenceValue& expected, OpId op) const {
  if (trace_.ops.payload[op.index()] < 0) return " has no payload";
  const auto tensor = value_of(trace_, op);
  const auto shape = trace_.shapes[trace_.ops.shape[op.index()]];
  if (tensor.dtype != expected.dtype || static_cast<DType>(trace_.ops.dtype[op.index()]) != expected.dtype) {
    return " has dtype " + std::string(short_name(tensor.dtype)) + ", not " + std::string(short_name(expected.dtype));
  }
  if (tensor.sizes != expected.shape || !std::ranges::equal(shape, expected.shape)) return " has another shape";
  const auto stats = compute_stats(tensor);
  if (expected.empty) return stats.numel == 0 ? "" : " has elements";
  const auto abs_sum = expected.abs_mean * static_cast<double>(stats.numel);
  auto text = number_misfit("sum", expected.sum, stats.sum, abs_sum) +
              number_misfit("mean", expected.mean, stats.mean(), expected.abs_mean) +
              number_misfit("min", expected.min, stats.min, 0) + number_misfit("max", expected.max, stats.max, 0) +
              number_misfit("abs_mean", expected.abs_mean, stats.abs_mean(), 0);
  const auto values = first_values(tensor, expected.values.size());
  for (std::size_t i = 0; i < values.size(); ++i) text += number_misfit("value", expected.values[i], values[i], 0);
  return text;
}

/// The changed tensor is the one the first view was taken of, with the elements of the last view replaced.
std::string ReferenceComparison::written_misfit(const ReferenceValue& expected, const Match& match) const {
  const auto before = parents(trace_, match.parts.front());
  if (before.empty() || match.parts.size() < 2) return " has no tensor that it writes to";
  const auto whole = compute_stats(value_of(trace_, before[0]));
  const auto old_part = compute_stats(value_of(trace_, match.parts[match.parts.size() - 2]));
  const auto new_part = compute_stats(value_of(trace_, match.parts.back()));
  const auto shape = trace_.shapes[trace_.ops.shape[before[0].index()]];
  if (!std::ranges::equal(shape, expected.shape)) return " has another shape";
  if (static_cast<DType>(trace_.ops.dtype[match.parts.back().index()]) != expected.dtype) return " has another dtype";
  const auto numel = static_cast<double>(whole.numel);
  const auto scale = whole.abs_sum / numel;
  const auto mean = (whole.sum - old_part.sum + new_part.sum) / numel;
  const auto abs_mean = (whole.abs_sum - old_part.abs_sum + new_part.abs_sum) / numel;
  return number_misfit("mean", expected.mean, mean, scale) +
         number_misfit("abs_mean", expected.abs_mean, abs_mean, scale);
}

const ReferenceValue* ReferenceComparison::moved_on_state(std::size_t row) const {
  const auto& op = reference_.ops[row];
  if (artifact_ != Artifact::kTrace || op.kind != OpKind::kBuffer || !op.parents.empty()) return nullptr;
  const ReferenceValue* last = nullptr;
  for (auto later = row + 1; later < reference_.ops.size(); ++later) {
    const auto& other = reference_.ops[later];
    const bool changed = other.kind == OpKind::kBuffer && other.address == op.address && !other.unchanged_write;
    if (changed && is_declared(Effect::kOtherState, "*")) last = &other.value;
  }
  return last;
}

void ReferenceComparison::compare_values() {
  std::vector<bool> moved_on(matches_.size(), false);
  for (std::size_t row = 0; row < matches_.size(); ++row) {
    const auto& match = matches_[row];
    const auto* state = moved_on_state(row);
    const auto& sources = reference_.ops[row].parents;
    const bool hangs_on_state = std::ranges::any_of(sources, [&](std::size_t parent) { return moved_on[parent]; });
    moved_on[row] = state != nullptr || hangs_on_state;
    if (match.parts.empty() || hangs_on_state) continue;
    const auto& expected = state ? *state : reference_.ops[row].value;
    const auto text = match.effect == Effect::kWrittenThrough ? written_misfit(expected, match)
                                                              : value_misfit(expected, match.parts.back());
    if (!text.empty()) misfit(row, op_label(trace_, match.parts.back()) + text);
  }
}

void ReferenceComparison::compare_layers() {
  for (std::size_t op = 0; op < trace_.num_ops(); ++op) {
    if (part_of_[op].reference == reference_.ops.size()) return;  // said already
  }
  compare_grouping();
  compare_labels();
}

void ReferenceComparison::compare_grouping() {
  std::map<std::pair<std::size_t, std::size_t>, std::int32_t> layer_of;
  std::map<std::int32_t, std::pair<std::size_t, std::size_t>> group_of;
  for (std::size_t op = 0; op < trace_.num_ops(); ++op) {
    const auto [row, position] = part_of_[op];
    const std::pair group{reference_.ops[row].layer, position};
    const auto layer = trace_.ops.layer[op];
    const auto expected_layer = layer_of.try_emplace(group, layer).first->second;
    const auto expected_group = group_of.try_emplace(layer, group).first->second;
    const LayerId id{static_cast<std::uint32_t>(layer)};
    if (expected_layer != layer || expected_group != group) {
      misfit(row, "is a pass of " + layer_label(trace_, id) + ", by the rule " + reference_.ops[row].layer_label);
    }
    const auto basis = static_cast<GroupingBasis>(trace_.layers.grouping_basis[id.index()]);
    const bool by_line = reference_.ops[row].kind == OpKind::kOperation && artifact_ != Artifact::kScript;
    if (basis != (by_line ? GroupingBasis::kLine : GroupingBasis::kColumns)) misfit(row, "is grouped on another basis");
    if (matches_[row].as_declared) continue;
    const auto passes = trace_.layers.num_passes[id.index()];
    if (static_cast<std::size_t>(passes) != reference_.layer_sizes[group.first]) {
      misfit(row, layer_label(trace_, id) + " has " + std::to_string(passes) + " passes");
    }
  }
}

std::string ReferenceComparison::expected_layer_type(const ReferenceOp& op, OpId part) const {
  if (op.kind != OpKind::kOperation) return stem_of(op.kind);
  const auto* naming = naming_of(op.func_name);
  return type_of(naming ? func_name(trace_, part) : std::string_view(op.func_name));
}

void ReferenceComparison::compare_labels() {
  std::map<std::pair<std::size_t, std::size_t>, std::pair<std::string, int>> known;  // label and passes so far
  std::map<std::string, int> of_type;
  int total = 0;
  std::size_t plain = 0;  // rows before the first that is declared to differ
  while (plain < matches_.size() && !matches_[plain].as_declared) ++plain;
  for (std::size_t op = 0; op < trace_.num_ops(); ++op) {
    const auto [row, position] = part_of_[op];
    const auto& expected = reference_.ops[row];
    const OpId id{static_cast<std::uint32_t>(op)};
    const std::pair group{expected.layer, position};
    if (!known.contains(group)) {
      const auto type = expected_layer_type(expected, id);
      auto label = type + "_" + std::to_string(++of_type[type]);
      if (expected.kind == OpKind::kOperation) label += "_" + std::to_string(++total);
      known[group] = {label, 0};
    }
    auto& [label, passes] = known[group];
    ++passes;
    const auto full = label + ":" + std::to_string(passes);
    const auto actual = op_label(trace_, id, true);
    if (actual != full) misfit(row, "has the label " + actual + ", not " + full);
    if (row >= plain) continue;
    ++labels_taken_over_;
    if (op_label(trace_, id) != expected.layer_label) {
      misfit(row, "has the label " + op_label(trace_, id) + ", not " + expected.layer_label);
    }
  }
}

}  // namespace tl::test

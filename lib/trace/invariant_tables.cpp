#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "trace/invariant_checks.h"

namespace tl {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }
std::string at(std::string_view table, std::size_t row) { return std::string(table) + "[" + std::to_string(row) + "]"; }

/// Parents before children: then following parents ends.
void check_parents_first(std::string_view table, std::span<const std::int32_t> parents, Findings& findings,
                         std::string_view check) {
  for (std::size_t row = 0; row < parents.size(); ++row) {
    if (parents[row] < static_cast<std::int64_t>(row)) continue;
    findings.add(check, at(table, row) + " has parent " + number(parents[row]) + ", a parent comes before its child");
  }
}

/// Ranges first_op .. end_op are in order and lie within those of their parent rows.
void check_nested(std::string_view table, std::span<const std::int32_t> parents, std::span<const std::int32_t> first,
                  std::span<const std::int32_t> end, Findings& findings, std::string_view check) {
  for (std::size_t row = 0; row < first.size(); ++row) {
    if (first[row] < 0 || end[row] < first[row]) {
      findings.add(check, at(table, row) + " covers ops " + number(first[row]) + " .. " + number(end[row]));
    }
    if (parents.empty() || parents[row] < 0 || parents[row] >= static_cast<std::int64_t>(row)) continue;
    const auto parent = static_cast<std::size_t>(parents[row]);
    if (first[row] < first[parent] || end[row] > end[parent]) {
      findings.add(check, at(table, row) + " covers ops " + number(first[row]) + " .. " + number(end[row]) +
                              ", its parent " + number(first[parent]) + " .. " + number(end[parent]));
    }
  }
}

/// A pass and its Layer's first one are the same code: kind, func name, output slot, module instance.
bool same_code(const Trace& trace, std::size_t left, std::size_t right) {
  const OpId a{static_cast<std::uint32_t>(left)};
  const OpId b{static_cast<std::uint32_t>(right)};
  const auto module_of = [&](std::size_t op) {
    const auto context = trace.ops.site_context[op];
    return context < 0 ? -1 : trace.site_contexts.module[static_cast<std::size_t>(context)];
  };
  return trace.ops.kind[left] == trace.ops.kind[right] && trace.ops.slot[left] == trace.ops.slot[right] &&
         func_name(trace, a) == func_name(trace, b) && module_of(left) == module_of(right);
}

void check_layer(const Trace& trace, std::size_t layer, Findings& findings) {
  const auto& layers = trace.layers;
  const auto passes = layers.num_passes[layer];
  const auto begin = layers.ops_begin[layer];
  if (passes < 1 || begin < 0 || passes > std::ssize(trace.layer_ops.op.view()) - begin) {
    findings.add("passes", at("layers", layer) + " has " + number(passes) + " passes from row " + number(begin) +
                               " of " + number(std::ssize(trace.layer_ops.op.view())));
    return;
  }
  for (std::int32_t pass = 0; pass < passes; ++pass) {
    const auto op = trace.layer_ops.op[static_cast<std::size_t>(begin + pass)];
    const auto row = static_cast<std::size_t>(op);
    if (op < 0 || trace.ops.layer[row] != static_cast<std::int64_t>(layer) || trace.ops.pass_index[row] != pass + 1) {
      findings.add("passes", at("layers", layer) + " lists op " + number(op) + " as pass " + number(pass + 1) +
                                 ", the op says otherwise");
    } else if (pass == 0 && layers.first_op[layer] != op) {
      findings.add("passes", at("layers", layer) + " has first_op " + number(layers.first_op[layer]) +
                                 ", its first pass is op " + number(op));
    } else if (pass > 0 && op <= trace.layer_ops.op[static_cast<std::size_t>(begin + pass - 1)]) {
      findings.add("passes", at("layers", layer) + " has passes that are not in capture order at op " + number(op));
    } else if (layers.first_op[layer] >= 0 &&
               !same_code(trace, static_cast<std::size_t>(layers.first_op[layer]), row)) {
      findings.add("passes", at("layers", layer) + " groups op " + number(op) + " with other code");
    }
  }
}

}  // namespace

void check_passes(const Trace& trace, Findings& findings) {
  const auto layers = trace.layers.num_passes.size();
  if (layers == 0 && !trace.finished) return;
  std::int64_t begin = 0;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (trace.layers.ops_begin[layer] != begin) {
      findings.add("passes", at("layers", layer) + " begins at row " + number(trace.layers.ops_begin[layer]) +
                                 " of layer_ops, the Layers before end at " + number(begin));
    }
    begin += trace.layers.num_passes[layer];
    check_layer(trace, layer, findings);
    if (layer > 0 && trace.layers.first_op[layer] <= trace.layers.first_op[layer - 1]) {
      findings.add("passes", at("layers", layer) + " does not come by first pass");
    }
  }
  if (trace.layer_ops.op.size() != trace.num_ops()) {
    findings.add("passes", "layer_ops has " + number(std::ssize(trace.layer_ops.op.view())) + " rows for " +
                               number(static_cast<std::int64_t>(trace.num_ops())) + " ops");
  }
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    if (trace.ops.layer[op] < 0)
      findings.add("passes", "op " + number(static_cast<std::int64_t>(op)) + " is in no Layer");
  }
}

void check_labels(const Trace& trace, Findings& findings) {
  const auto& layers = trace.layers;
  const bool labelled = std::ranges::any_of(layers.type_num, [](std::int32_t type_num) { return type_num > 0; });
  if (!labelled && !trace.finished) return;
  using Label = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::size_t>;
  std::vector<Label> labels;
  std::int32_t total = 0;
  for (std::size_t layer = 0; layer < layers.type_num.size(); ++layer) {
    labels.emplace_back(layers.layer_type[layer], layers.type_num[layer], layers.total_num[layer], layer);
    const auto first = layers.first_op[layer];
    const bool operation = first >= 0 && static_cast<std::size_t>(first) < trace.num_ops() &&
                           trace.ops.kind[static_cast<std::size_t>(first)] == 0;
    const auto expected = operation ? ++total : 0;
    if (layers.total_num[layer] != expected) {
      findings.add("labels", at("layers", layer) + " has total_num " + number(layers.total_num[layer]) +
                                 ", capture order gives " + number(expected));
    }
  }
  std::ranges::sort(labels, {}, [](const Label& label) { return std::tuple(std::get<0>(label), std::get<3>(label)); });
  std::int32_t next = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    next = i > 0 && std::get<0>(labels[i]) == std::get<0>(labels[i - 1]) ? next + 1 : 1;
    if (std::get<1>(labels[i]) == next) continue;
    findings.add("labels", at("layers", std::get<3>(labels[i])) + " has type_num " + number(std::get<1>(labels[i])) +
                               ", capture order gives " + number(next));
  }
}

void check_modules(const Trace& trace, Findings& findings) {
  check_parents_first("modules", trace.modules.parent.view(), findings, "modules");
  const auto& calls = trace.module_calls;
  check_parents_first("module_calls", calls.parent_call.view(), findings, "modules");
  check_nested("module_calls", calls.parent_call.view(), calls.first_op.view(), calls.end_op.view(), findings,
               "modules");
  std::vector<std::int32_t> count(trace.modules.address.size(), 0);
  for (std::size_t call = 0; call < calls.module.size(); ++call) {
    const auto module = calls.module[call];
    if (module < 0) {
      findings.add("modules", at("module_calls", call) + " has no module");
      continue;
    }
    const auto expected = ++count[static_cast<std::size_t>(module)];
    if (calls.call_index[call] != expected) {
      findings.add("modules", at("module_calls", call) + " has call_index " + number(calls.call_index[call]) +
                                  ", order of entry gives " + number(expected));
    }
    if ((call == 0) != (calls.parent_call[call] < 0)) {
      findings.add("modules", at("module_calls", call) + " has parent " + number(calls.parent_call[call]) +
                                  ", only the first row is the root call");
    }
  }
  if (!trace.finished) return;
  for (std::size_t module = 0; module < count.size(); ++module) {
    if (trace.modules.num_calls[module] != count[module]) {
      findings.add("modules", at("modules", module) + " has num_calls " + number(trace.modules.num_calls[module]) +
                                  ", module_calls has " + number(count[module]));
    }
  }
}

void check_contexts(const Trace& trace, Findings& findings) {
  check_parents_first("site_contexts", trace.site_contexts.parent.view(), findings, "contexts");
  for (std::size_t row = 0; row < trace.site_contexts.module.size(); ++row) {
    if (trace.site_contexts.module[row] < 0) findings.add("contexts", at("site_contexts", row) + " has no module");
  }
}

void check_buffers(const Trace& trace, Findings& findings) {
  const auto& buffers = trace.buffers;
  const bool counted = std::ranges::any_of(buffers.num_versions, [](std::int32_t versions) { return versions > 0; });
  if (!counted && !trace.finished) return;
  std::vector<std::int32_t> row_of(trace.strings.size(), -1);
  for (std::size_t row = 0; row < buffers.address.size(); ++row) {
    if (buffers.address[row] >= 0)
      row_of[static_cast<std::size_t>(buffers.address[row])] = static_cast<std::int32_t>(row);
  }
  std::vector<std::int32_t> versions(buffers.address.size(), 0);
  std::vector<std::int32_t> last(buffers.address.size(), -1);
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    if (trace.ops.kind[op] != static_cast<std::uint8_t>(OpKind::kBuffer) || trace.ops.address[op] < 0) continue;
    const auto row = row_of[static_cast<std::size_t>(trace.ops.address[op])];
    if (row < 0) continue;
    ++versions[static_cast<std::size_t>(row)];
    last[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(op);
  }
  for (std::size_t row = 0; row < versions.size(); ++row) {
    if (buffers.num_versions[row] == versions[row] && buffers.last_op[row] == last[row]) continue;
    findings.add("buffers", at("buffers", row) + " says " + number(buffers.num_versions[row]) + " versions up to op " +
                                number(buffers.last_op[row]) + ", the ops give " + number(versions[row]) + " up to " +
                                number(last[row]));
  }
}

/// Arms stand with their conditional, an executed arm and its conditional agree, and an arm stands in an earlier one.
void check_arms(const Trace& trace, Findings& findings) {
  const auto& arms = trace.conditional_arms;
  const auto& branches = trace.branches;
  const auto& conditionals = trace.conditionals;
  const auto owner_of = [&](std::int32_t arm) {
    const auto row = static_cast<std::size_t>(arm);
    return arm < 0 || row >= arms.conditional.size() ? -1 : arms.conditional[row];
  };
  for (std::size_t row = 1; row < arms.conditional.size(); ++row) {
    if (arms.conditional[row] >= arms.conditional[row - 1]) continue;
    findings.add("branches", at("conditional_arms", row) + " is of conditional " + number(arms.conditional[row]) +
                                 ", the row before of " + number(arms.conditional[row - 1]));
  }
  for (std::size_t row = 0; row < branches.conditional.size(); ++row) {
    const auto arm = branches.conditional_arm[row];
    if (arm < 0 || owner_of(arm) == branches.conditional[row]) continue;
    findings.add("branches", at("branches", row) + " is of conditional " + number(branches.conditional[row]) +
                                 ", its arm " + number(arm) + " of " + number(owner_of(arm)));
  }
  for (std::size_t row = 0; row < conditionals.instruction.size(); ++row) {
    const auto arm = conditionals.parent_arm[row];
    if (arm < 0 || owner_of(arm) != static_cast<std::int64_t>(row)) continue;
    findings.add("branches", at("conditionals", row) + " stands in its own arm " + number(arm));
  }
}

void check_branches(const Trace& trace, Findings& findings) {
  check_arms(trace, findings);
  const auto& branches = trace.branches;
  check_parents_first("branches", branches.parent.view(), findings, "branches");
  check_nested("branches", branches.parent.view(), branches.first_op.view(), branches.end_op.view(), findings,
               "branches");
  check_nested("loops", {}, trace.loops.first_op.view(), trace.loops.end_op.view(), findings, "branches");
  for (std::size_t row = 0; row < branches.conditional.size(); ++row) {
    if (branches.conditional[row] < 0 || branches.arm[row] > 1) {
      findings.add("branches", at("branches", row) + " is arm " + number(branches.arm[row]) + " of conditional " +
                                   number(branches.conditional[row]));
    }
  }
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    const auto branch = trace.ops.branch[op];
    if (branch < 0) continue;
    const auto row = static_cast<std::size_t>(branch);
    const auto position = static_cast<std::int64_t>(op);
    if (position >= branches.first_op[row] && position < branches.end_op[row]) continue;
    findings.add("branches", "op " + number(position) + " is outside its arm " + number(branch) + ", " +
                                 number(branches.first_op[row]) + " .. " + number(branches.end_op[row]));
  }
}

void check_payloads(const Trace& trace, Findings& findings) {
  const auto& payloads = trace.payloads;
  const auto rows = payloads.first_op.size();
  if (rows == 0) return;
  std::vector<std::int32_t> first(rows, -1);
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    for (const auto payload : {trace.ops.payload[op], trace.ops.sample[op]}) {
      if (payload >= 0 && first[static_cast<std::size_t>(payload)] < 0) {
        first[static_cast<std::size_t>(payload)] = static_cast<std::int32_t>(op);
      }
    }
  }
  for (std::size_t row = 0; row < rows; ++row) {
    if (payloads.first_op[row] != first[row] || first[row] < 0) {
      findings.add("payloads", at("payloads", row) + " names op " + number(payloads.first_op[row]) +
                                   ", the first op that refers to it is " + number(first[row]));
    }
    if (row > 0 && payloads.first_op[row] <= payloads.first_op[row - 1]) {
      findings.add("payloads", at("payloads", row) + " does not come by first op");
    }
    const auto sizes = trace.shapes[payloads.shape[row]];
    const auto strides = trace.shapes[payloads.strides[row]];
    const auto encoding = payloads.encoding[row];
    const bool strided = encoding != static_cast<std::uint8_t>(PayloadEncoding::kSparse) &&
                         encoding != static_cast<std::uint8_t>(PayloadEncoding::kOpaque);
    if (encoding > static_cast<std::uint8_t>(PayloadEncoding::kOpaque) || payloads.shape[row] < 0 ||
        (strided && sizes.size() != strides.size())) {
      findings.add("payloads", at("payloads", row) + " has " + number(std::ssize(sizes)) + " sizes, " +
                                   number(std::ssize(strides)) + " strides and encoding " + number(encoding));
    }
    if (payloads.bytes[row] < 0 || payloads.offset[row] < 0) {
      findings.add("payloads", at("payloads", row) + " has " + number(payloads.bytes[row]) + " bytes at offset " +
                                   number(payloads.offset[row]));
    }
  }
  if (trace.payload_source && trace.payload_source->size() != rows) {
    findings.add("payloads", "the payload source has " +
                                 number(static_cast<std::int64_t>(trace.payload_source->size())) + " tensors for " +
                                 number(static_cast<std::int64_t>(rows)) + " rows");
  }
}

}  // namespace tl

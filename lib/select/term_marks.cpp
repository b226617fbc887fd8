#include "select/term_marks.h"

#include <re2/re2.h>

#include <algorithm>
#include <charconv>

#include "select/glob.h"

namespace tl {
namespace {

using Kind = SelectorNode::Kind;

std::size_t at(std::int32_t value) { return static_cast<std::size_t>(value); }

/// True if one of `list`, separated by commas, fits.
bool one_fits(std::string_view pattern, std::string_view list) {
  while (true) {
    const auto comma = list.find(',');
    if (glob_matches(pattern, list.substr(0, comma))) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
}

/// Flags also every row whose chain of parents reaches a flagged one. Rows may come before their parents; the chains
/// end, which readers have checked.
void inherit(Flags& flags, const Column<std::int32_t>& parents) {
  Flags settled(flags.size(), 0);
  std::vector<std::size_t> chain;
  for (std::size_t row = 0; row < flags.size(); ++row) {
    auto current = row;
    chain.clear();
    while (settled[current] == 0 && flags[current] == 0 && parents[current] >= 0) {
      chain.push_back(current);
      settled[current] = 1;
      current = at(parents[current]);
    }
    settled[current] = 1;
    for (const auto below : chain) flags[below] = flags[current];
  }
}

Flags ops_by_instruction(const Trace& trace, std::string_view pattern) {
  Flags fits(trace.instructions.op_name.size(), 0);
  for (std::size_t row = 0; row < fits.size(); ++row) {
    fits[row] = instruction_fits(trace.strings, trace.instructions, row, pattern) ? 1 : 0;
  }
  Flags ops(trace.num_ops(), 0);
  for (std::size_t op = 0; op < ops.size(); ++op) {
    const auto instruction = trace.ops.instruction[op];
    if (instruction >= 0) ops[op] = fits[at(instruction)];
  }
  return ops;
}

Flags outputs_of_modules(const Trace& trace, std::string_view text) {
  const auto pattern = module_pattern(text);
  const auto modules = modules_named(trace.strings, trace.modules, pattern.address);
  const auto calls = calls_of(trace.module_calls, modules, pattern.call, false);
  Flags ops(trace.num_ops(), 0);
  for (std::size_t call = 0; call < calls.size(); ++call) {
    if (calls[call] != 0 && trace.module_calls.output_op[call] >= 0) ops[at(trace.module_calls.output_op[call])] = 1;
  }
  return ops;
}

Flags ops_in_modules(const Trace& trace, std::string_view text) {
  const auto pattern = module_pattern(text);
  const auto modules = pattern.call == 0 ? modules_in(trace.strings, trace.modules, pattern.address)
                                         : modules_named(trace.strings, trace.modules, pattern.address);
  const auto calls = calls_of(trace.module_calls, modules, pattern.call, true);
  Flags ops(trace.num_ops(), 0);
  for (std::size_t op = 0; op < ops.size(); ++op) {
    const auto call = trace.ops.module_call[op];
    if (call >= 0 && at(call) < calls.size()) ops[op] = calls[at(call)];
  }
  return ops;
}

template <typename Fits>
Flags ops_by_label(const Trace& trace, Fits fits) {
  Flags ops(trace.num_ops(), 0);
  std::string label;
  for (std::size_t op = 0; op < ops.size(); ++op) {
    label.clear();
    append_op_label(label, trace, op);
    ops[op] = fits(label) ? 1 : 0;
  }
  return ops;
}

Flags ops_by_pattern(const Trace& trace, const SelectorNode& term, std::string_view source) {
  RE2::Options options;
  options.set_log_errors(false);
  const RE2 pattern(term.text, options);
  if (!pattern.ok()) {
    throw selector_error(ErrorCode::kSelectorSyntax, source, term.at, "regular expression: " + pattern.error(),
                         "the syntax is RE2's: no look-around, no back references");
  }
  return ops_by_label(trace, [&](const std::string& label) { return RE2::PartialMatch(label, pattern); });
}

Flags ops_of_kind(const Trace& trace, OpKind kind, std::string_view role) {
  Flags ops(trace.num_ops(), 0);
  for (std::size_t op = 0; op < ops.size(); ++op) {
    if (static_cast<OpKind>(trace.ops.kind[op]) != kind) continue;
    ops[op] = role.empty() || role_fits(role, trace.strings[trace.ops.address[op]]) ? 1 : 0;
  }
  return ops;
}

}  // namespace

bool role_fits(std::string_view pattern, std::string_view role) {
  if (glob_matches(pattern, role)) return true;
  const auto dot = role.find('.');
  return dot != std::string_view::npos && glob_matches(pattern, role.substr(dot + 1));
}

bool instruction_fits(const StringPool& strings, const InstructionsTable& instructions, std::size_t row,
                      std::string_view pattern) {
  const auto name = strings[instructions.func_name[row]];
  if (glob_matches(pattern, name)) return true;
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__") &&
      glob_matches(pattern, name.substr(2, name.size() - 4))) {
    return true;
  }
  const auto op_name = strings[instructions.op_name[row]];
  if (pattern.find(':') == std::string_view::npos) return false;
  if (glob_matches(pattern, op_name)) return true;
  const auto overload = strings[instructions.overload[row]];
  return !overload.empty() && glob_matches(pattern, std::string(op_name) + "." + std::string(overload));
}

ModulePattern module_pattern(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return {text, 0};
  const auto digits = text.substr(colon + 1);
  std::int32_t call = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), call);
  if (error != std::errc() || end != digits.data() + digits.size() || call < 1) return {text, 0};
  return {text.substr(0, colon), call};
}

Flags modules_named(const StringPool& strings, const ModulesTable& modules, std::string_view pattern) {
  Flags flags(modules.address.size(), 0);
  for (std::size_t row = 0; row < flags.size(); ++row) {
    const auto address = modules.address[row];
    const auto all = modules.all_addresses[row];
    flags[row] =
        glob_matches(pattern, strings[address]) || (all >= 0 && all != address && one_fits(pattern, strings[all]));
  }
  return flags;
}

Flags modules_in(const StringPool& strings, const ModulesTable& modules, std::string_view pattern) {
  auto flags = modules_named(strings, modules, pattern);
  inherit(flags, modules.parent);
  return flags;
}

Flags calls_of(const ModuleCallsTable& calls, const Flags& modules, std::int32_t call, bool inner) {
  Flags flags(calls.module.size(), 0);
  for (std::size_t row = 0; row < flags.size(); ++row) {
    const auto module = calls.module[row];
    if (module < 0 || at(module) >= modules.size()) continue;
    flags[row] = modules[at(module)] != 0 && (call == 0 || calls.call_index[row] == call) ? 1 : 0;
  }
  if (inner) inherit(flags, calls.parent_call);
  return flags;
}

Flags ops_of_term(const SelectorNode& term, std::string_view source, const Trace& trace) {
  switch (term.kind) {
    case Kind::kFunc:
      return ops_by_instruction(trace, term.text);
    case Kind::kModule:
      return outputs_of_modules(trace, term.text);
    case Kind::kInModule:
      return ops_in_modules(trace, term.text);
    case Kind::kContains:
      return ops_by_label(trace, [&](const std::string& label) { return label.find(term.text) != std::string::npos; });
    case Kind::kRegex:
      return ops_by_pattern(trace, term, source);
    case Kind::kInput:
      return ops_of_kind(trace, OpKind::kInput, term.text);
    case Kind::kOutput:
      return ops_of_kind(trace, OpKind::kOutput, term.text);
    case Kind::kBuffer:
      return ops_of_kind(trace, OpKind::kBuffer, term.text);
    default:
      break;
  }
  TL_CHECK(false, "the term is evaluated elsewhere");
  return {};
}

std::vector<std::uint32_t> ops_of_found(const Trace& trace, const Found& found) {
  std::vector<std::uint32_t> ops;
  const auto add = [&](std::int32_t op) {
    if (op >= 0) ops.push_back(static_cast<std::uint32_t>(op));
  };
  switch (found.kind) {
    case Found::Kind::kOp:
      ops.push_back(found.row);
      break;
    case Found::Kind::kLayer: {
      const auto begin = at(trace.layers.ops_begin[found.row]);
      for (std::size_t pass = 0; pass < at(trace.layers.num_passes[found.row]); ++pass) {
        add(trace.layer_ops.op[begin + pass]);
      }
      break;
    }
    case Found::Kind::kModule:
      for (std::size_t call = 0; call < trace.module_calls.module.size(); ++call) {
        if (trace.module_calls.module[call] == static_cast<std::int64_t>(found.row))
          add(trace.module_calls.output_op[call]);
      }
      break;
    case Found::Kind::kModuleCall:
      add(trace.module_calls.output_op[found.row]);
      break;
    case Found::Kind::kParam:
      for (std::size_t use = 0; use < trace.param_uses.param.size(); ++use) {
        if (trace.param_uses.param[use] == static_cast<std::int64_t>(found.row)) add(trace.param_uses.op[use]);
      }
      break;
    case Found::Kind::kBuffer:
      for (std::size_t op = 0; op < trace.num_ops(); ++op) {
        if (static_cast<OpKind>(trace.ops.kind[op]) == OpKind::kBuffer &&
            trace.ops.address[op] == trace.buffers.address[found.row]) {
          ops.push_back(static_cast<std::uint32_t>(op));
        }
      }
      break;
    default:
      break;
  }
  return ops;
}

}  // namespace tl

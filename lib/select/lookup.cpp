#include "select/lookup.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/text.h"
#include "select/collections.h"
#include "trace/branches.h"

namespace tl {
namespace {

constexpr std::size_t kMaxSuggestionPool = 20'000;
constexpr std::size_t kMaxListed = 5;

/// The digits of a label or pass: no sign.
std::optional<std::int32_t> number_from(std::string_view text) {
  if (text.starts_with('-')) return std::nullopt;
  return integer_from(text);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (auto& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

/// True if `all`, a comma-separated list, holds `wanted`.
bool lists(std::string_view all, std::string_view wanted) {
  while (!all.empty()) {
    const auto comma = all.find(',');
    if (all.substr(0, comma) == wanted) return true;
    if (comma == std::string_view::npos) return false;
    all.remove_prefix(comma + 1);
  }
  return false;
}

/// {type}_{a} or {type}_{a}_{b}.
struct LabelParts {
  std::string_view type;
  std::int32_t first = 0;
  std::optional<std::int32_t> second;
};

/// The ways to read a text as a label: two numbers at its end, or one.
std::vector<LabelParts> label_readings(std::string_view text) {
  std::vector<LabelParts> readings;
  const auto last = text.rfind('_');
  if (last == std::string_view::npos) return readings;
  const auto end_number = number_from(text.substr(last + 1));
  if (!end_number) return readings;
  const auto before = text.substr(0, last);
  if (const auto middle = before.rfind('_'); middle != std::string_view::npos) {
    if (const auto number = number_from(before.substr(middle + 1))) {
      readings.push_back({before.substr(0, middle), *number, end_number});
    }
  }
  readings.push_back({before, *end_number, std::nullopt});
  return readings;
}

class Lookup {
 public:
  explicit Lookup(const Trace& trace) : trace_(trace) {}

  /// Layer labels with or without a pass, and raw labels.
  std::optional<Result<Found>> label(std::string_view key) const {
    const auto colon = key.rfind(':');
    const auto bare = key.substr(0, colon);
    const auto pass = colon == std::string_view::npos ? std::string_view{} : key.substr(colon + 1);
    if (const auto layer = layer_of_label(bare)) return with_pass(*layer, bare, pass, colon != std::string_view::npos);
    if (const auto op = op_of_raw_label(key)) return Found{Found::Kind::kOp, *op};
    return std::nullopt;
  }

  std::optional<Result<Found>> exact(std::string_view key) const {
    if (auto found = label(key)) return found;
    const auto colon = key.rfind(':');
    const auto bare = key.substr(0, colon);
    const auto pass = colon == std::string_view::npos ? std::string_view{} : key.substr(colon + 1);
    if (const auto op = op_of_role(key)) return Found{Found::Kind::kOp, *op};
    if (const auto row = row_of(trace_.modules.address, trace_.modules.all_addresses, key)) {
      return Found{Found::Kind::kModule, *row};
    }
    if (colon != std::string_view::npos) {
      if (auto call = module_call(bare, pass)) return call;
    }
    if (const auto row = row_of(trace_.params.address, trace_.params.all_addresses, key)) {
      return Found{Found::Kind::kParam, *row};
    }
    if (const auto row = row_of(trace_.buffers.address, trace_.buffers.address, key)) {
      return Found{Found::Kind::kBuffer, *row};
    }
    if (const auto row = conditional(key)) return Found{Found::Kind::kConditional, *row};
    if (const auto index = integer_from(key)) return element(trace_, Found::Kind::kOp, *index);
    if (const auto parts = collection_key(key)) return in_collection(*parts);
    return std::nullopt;
  }

  /// One element of a typed collection.
  Result<Found> in_collection(const CollectionKey& key) const {
    if (key.is_slice) {
      return Error(ErrorCode::kAmbiguousOpLookup, key.text + " names several records where one is needed",
                   "torchlens query TRACE " + key.text);
    }
    if (key.index) return element(trace_, key.kind, *key.index);
    auto found = exact(key.inner);
    if (!found)
      return Error(ErrorCode::kLookupNotFound, key.text + ": " + key.collection + " have no '" + key.inner + "'");
    if (!found->ok() || found->value().kind == key.kind) return std::move(*found);
    const auto record = found->value();
    if (key.kind == Found::Kind::kOp && record.kind == Found::Kind::kLayer) return one_pass(record.row);
    if (key.kind == Found::Kind::kModuleCall && record.kind == Found::Kind::kModule) return one_call(record.row);
    return Error(ErrorCode::kLookupNotFound,
                 key.text + ": '" + key.inner + "' is in " + std::string(to_string(table_of(record.kind))));
  }

  /// The only pass of a Layer.
  Result<Found> one_pass(std::uint32_t layer, ErrorCode code = ErrorCode::kAmbiguousOpLookup) const {
    if (trace_.layers.num_passes[layer] == 1) {
      return Found{Found::Kind::kOp, static_cast<std::uint32_t>(trace_.layers.first_op[layer])};
    }
    const auto label = layer_label(trace_, LayerId{layer});
    const auto passes = trace_.layers.num_passes[layer];
    return Error(code, "'" + label + "' is a layer with " + std::to_string(passes) + " passes where one op is needed",
                 label + ":1 names the first, " + label + ":last the last, " + label + ":all all of them",
                 "its passes are " + numbered(label, passes));
  }

  /// The only call of a module.
  Result<Found> one_call(std::uint32_t module) const {
    const auto address = std::string(trace_.strings[trace_.modules.address[module]]);
    const auto calls = trace_.modules.num_calls[module];
    if (calls == 1) return *module_call(address, "1");
    if (calls == 0) return Error(ErrorCode::kLookupNotFound, "module '" + address + "' was not called");
    return Error(ErrorCode::kModuleCallAmbiguous,
                 "module '" + address + "' was called " + std::to_string(calls) + " times where one call is needed",
                 address + ":1 names the first, " + address + ":last the last",
                 "its calls are " + numbered(address, calls));
  }

  /// Names that differ from `key` in case alone.
  std::optional<Found> case_insensitive(std::string_view key) const {
    const auto wanted = lower(key);
    if (wanted != key) {  // labels are lower case
      if (auto found = exact(wanted); found && found->ok()) return found->value();
    }
    const auto scan = [&](const Column<std::int32_t>& names) -> std::optional<std::uint32_t> {
      for (std::size_t row = 0; row < names.size(); ++row) {
        if (lower(trace_.strings[names[row]]) == wanted) return static_cast<std::uint32_t>(row);
      }
      return std::nullopt;
    };
    if (const auto row = scan(trace_.modules.address)) return Found{Found::Kind::kModule, *row};
    if (const auto row = scan(trace_.params.address)) return Found{Found::Kind::kParam, *row};
    if (const auto row = scan(trace_.buffers.address)) return Found{Found::Kind::kBuffer, *row};
    return std::nullopt;
  }

  /// name:1, name:2, …
  static std::string numbered(const std::string& name, std::int32_t count) {
    constexpr std::int32_t kShown = 20;
    std::string text;
    for (std::int32_t i = 1; i <= std::min(count, kShown); ++i) {
      text += (i > 1 ? ", " : "") + name + ":" + std::to_string(i);
    }
    return count > kShown ? text + ", … (" + std::to_string(count) + ")" : text;
  }

  std::vector<std::uint32_t> layers_holding(std::string_view key) const {
    std::vector<std::uint32_t> matches;
    for (std::size_t row = 0; row < trace_.layers.layer_type.size(); ++row) {
      const auto layer = static_cast<std::uint32_t>(row);
      if (layer_label(trace_, LayerId{layer}).find(key) != std::string::npos) matches.push_back(layer);
    }
    return matches;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    const auto add = [&](std::string name) {
      if (names.size() < kMaxSuggestionPool) names.push_back(std::move(name));
    };
    for (std::size_t row = 0; row < trace_.modules.address.size(); ++row) {
      add(std::string(trace_.strings[trace_.modules.address[row]]));
    }
    for (std::size_t row = 0; row < trace_.layers.layer_type.size() && names.size() < kMaxSuggestionPool; ++row) {
      add(layer_label(trace_, LayerId{static_cast<std::uint32_t>(row)}));
    }
    for (const auto code : trace_.params.address) add(std::string(trace_.strings[code]));
    for (const auto code : trace_.buffers.address) add(std::string(trace_.strings[code]));
    if (!trace_.conditionals.instruction.empty()) {
      for (auto& label : conditional_labels(trace_)) add(std::move(label));
    }
    return names;
  }

 private:
  std::optional<std::uint32_t> layer_of_label(std::string_view text) const {
    for (const auto& reading : label_readings(text)) {
      const auto type = trace_.strings.find(reading.type);
      if (type < 0) continue;
      for (std::size_t row = 0; row < trace_.layers.layer_type.size(); ++row) {
        if (trace_.layers.layer_type[row] != type || trace_.layers.type_num[row] != reading.first) continue;
        // Without a total number the text is the whole label of an input, output or buffer, or a short label.
        if (!reading.second || trace_.layers.total_num[row] == *reading.second) return static_cast<std::uint32_t>(row);
      }
    }
    return std::nullopt;
  }

  Result<Found> with_pass(std::uint32_t layer, std::string_view bare, std::string_view pass, bool has_pass) const {
    if (!has_pass || pass == "all") return Found{Found::Kind::kLayer, layer};
    const auto passes = trace_.layers.num_passes[layer];
    const auto number = pass == "last" ? std::optional(passes) : number_from(pass);
    if (!number || *number < 1 || *number > passes) {
      return Error(ErrorCode::kPassOutOfRange,
                   std::string(bare) + ":" + std::string(pass) + ": the layer has " + std::to_string(passes) +
                       (passes == 1 ? " pass" : " passes"),
                   "passes count from 1; " + std::string(bare) + ":last is the last");
    }
    const auto first = static_cast<std::size_t>(trace_.layers.ops_begin[layer]);
    const auto op = trace_.layer_ops.op[first + static_cast<std::size_t>(*number - 1)];
    return Found{Found::Kind::kOp, static_cast<std::uint32_t>(op)};
  }

  std::optional<std::uint32_t> op_of_raw_label(std::string_view text) const {
    constexpr std::string_view kSuffix = "_raw";
    if (!text.ends_with(kSuffix)) return std::nullopt;
    text.remove_suffix(kSuffix.size());
    for (const auto& reading : label_readings(text)) {
      if (!reading.second) continue;
      for (std::size_t row = 0; row < trace_.num_ops(); ++row) {
        if (trace_.ops.raw_index[row] == *reading.second && trace_.ops.type_index[row] == reading.first &&
            layer_type(trace_, OpId{static_cast<std::uint32_t>(row)}) == reading.type) {
          return static_cast<std::uint32_t>(row);
        }
      }
    }
    return std::nullopt;
  }

  std::optional<std::uint32_t> op_of_role(std::string_view role) const {
    const auto code = trace_.strings.find(role);
    if (code < 0) return std::nullopt;
    for (std::size_t row = 0; row < trace_.num_ops(); ++row) {
      const auto kind = static_cast<OpKind>(trace_.ops.kind[row]);
      if (trace_.ops.address[row] == code && (kind == OpKind::kInput || kind == OpKind::kOutput)) {
        return static_cast<std::uint32_t>(row);
      }
    }
    return std::nullopt;
  }

  std::optional<std::uint32_t> row_of(const Column<std::int32_t>& address, const Column<std::int32_t>& aliases,
                                      std::string_view key) const {
    if (const auto code = trace_.strings.find(key); code >= 0) {
      const auto found = std::find(address.begin(), address.end(), code);
      if (found != address.end()) return static_cast<std::uint32_t>(found - address.begin());
    }
    for (std::size_t row = 0; row < aliases.size(); ++row) {
      if (aliases[row] != address[row] && lists(trace_.strings[aliases[row]], key))
        return static_cast<std::uint32_t>(row);
    }
    return std::nullopt;
  }

  std::optional<std::uint32_t> conditional(std::string_view key) const {
    if (key.find('_') == std::string_view::npos || trace_.conditionals.instruction.empty()) return std::nullopt;
    const auto labels = conditional_labels(trace_);
    const auto found = std::ranges::find(labels, key);
    if (found == labels.end()) return std::nullopt;
    return static_cast<std::uint32_t>(found - labels.begin());
  }

  std::optional<Result<Found>> module_call(std::string_view address, std::string_view pass) const {
    const auto module = row_of(trace_.modules.address, trace_.modules.all_addresses, address);
    if (!module) return std::nullopt;
    if (pass == "all") return Found{Found::Kind::kModule, *module};
    const auto calls = trace_.modules.num_calls[*module];
    const auto number = pass == "last" ? std::optional(calls) : number_from(pass);
    for (std::size_t row = 0; number && row < trace_.module_calls.module.size(); ++row) {
      if (trace_.module_calls.module[row] == static_cast<std::int32_t>(*module) &&
          trace_.module_calls.call_index[row] == *number) {
        return Found{Found::Kind::kModuleCall, static_cast<std::uint32_t>(row)};
      }
    }
    return Error(ErrorCode::kPassOutOfRange,
                 std::string(address) + ":" + std::string(pass) + ": the module was called " + std::to_string(calls) +
                     (calls == 1 ? " time" : " times"),
                 "calls count from 1; " + std::string(address) + ":last is the last");
  }

  const Trace& trace_;
};

Error ambiguous(const Trace& trace, std::string_view key, const std::vector<std::uint32_t>& layers) {
  std::string listed;
  for (std::size_t i = 0; i < std::min(layers.size(), kMaxListed); ++i) {
    listed += (i > 0 ? ", " : "") + layer_label(trace, LayerId{layers[i]});
  }
  if (layers.size() > kMaxListed) listed += ", …";
  return {ErrorCode::kAmbiguousOpLookup,
          "'" + std::string(key) + "' is part of " + std::to_string(layers.size()) + " labels", "name one of them",
          listed};
}

/// The error about a key that names several records by its form: a collection, or a filter of one.
std::optional<Error> several_records(const Trace& trace, std::string_view key) {
  const auto text = std::string(key);
  if (is_collection(key)) {
    return Error(ErrorCode::kAmbiguousOpLookup, "'" + text + "' names several records where one is needed",
                 "torchlens query TRACE --table " + text);
  }
  if (const auto several = slice_or_filter(trace, key); several && several->ok()) {
    const auto count = several->value().size();
    return Error(ErrorCode::kAmbiguousOpLookup,
                 "'" + text + "' names " + std::to_string(count) + (count == 1 ? " record" : " records") +
                     " where a key of one is needed",
                 "torchlens query TRACE " + text);
  }
  return unknown_filter(trace, key);
}

}  // namespace

std::vector<std::string_view> types_of_label(std::string_view text) {
  std::vector<std::string_view> types;
  for (const auto& reading : label_readings(text.substr(0, text.rfind(':')))) types.push_back(reading.type);
  return types;
}

TableId table_of(Found::Kind kind) {
  switch (kind) {
    case Found::Kind::kLayer:
      return TableId::k_layers;
    case Found::Kind::kOp:
      return TableId::k_ops;
    case Found::Kind::kModule:
      return TableId::k_modules;
    case Found::Kind::kModuleCall:
      return TableId::k_module_calls;
    case Found::Kind::kParam:
      return TableId::k_params;
    case Found::Kind::kBuffer:
      return TableId::k_buffers;
    case Found::Kind::kConditional:
      return TableId::k_conditionals;
  }
  return TableId::k_ops;
}

Result<std::vector<Found>> look_up_rows(const Trace& trace, std::string_view key) {
  const Lookup lookup(trace);
  if (auto found = lookup.exact(key); found && found->ok()) return std::vector{found->value()};
  if (auto several = slice_or_filter(trace, key)) return std::move(*several);
  if (is_collection(key)) return *slice_or_filter(trace, std::string(key) + "[:]");
  auto found = look_up(trace, key);
  if (!found.ok()) return found.error();
  return std::vector{found.value()};
}

Result<std::vector<Found>> look_up_site(const Trace& trace, std::string_view label) {
  const Lookup lookup(trace);
  const auto found = lookup.label(label);
  if (!found) {
    std::string hint;
    for (const auto& close : did_you_mean(label, lookup.names()))
      hint += (hint.empty() ? "did you mean " : ", ") + close;
    return Error(ErrorCode::kLookupNotFound, "'" + std::string(label) + "': no layer or op has that label",
                 hint.empty() ? "contains(\"…\") takes a part of a label" : hint + "?");
  }
  if (!found->ok()) return found->error();
  if (found->value().kind == Found::Kind::kLayer && !label.ends_with(":all")) {
    const auto op = lookup.one_pass(found->value().row, ErrorCode::kMultipassBareLabel);
    if (!op.ok()) return op.error();
  }
  return std::vector{found->value()};
}

Result<OpId> look_up_op(const Trace& trace, std::string_view key) {
  const Lookup lookup(trace);
  auto found = look_up(trace, key);
  if (found.ok() && found.value().kind == Found::Kind::kLayer) found = lookup.one_pass(found.value().row);
  if (found.ok() && found.value().kind == Found::Kind::kModule) found = lookup.one_call(found.value().row);
  if (!found.ok()) return found.error();
  const auto record = found.value();
  if (record.kind == Found::Kind::kOp) return OpId{record.row};
  if (record.kind == Found::Kind::kModuleCall) {
    const auto output = trace.module_calls.output_op[record.row];
    if (output >= 0) return OpId{static_cast<std::uint32_t>(output)};
    return Error(ErrorCode::kLookupNotFound, "'" + std::string(key) + "': the call returned no recorded tensor");
  }
  return Error(
      ErrorCode::kLookupNotFound,
      "'" + std::string(key) + "' is in " + std::string(to_string(table_of(record.kind))) + ", where an op is needed");
}

Result<Found> look_up(const Trace& trace, std::string_view key) {
  const Lookup lookup(trace);
  if (auto found = lookup.exact(key)) return std::move(*found);
  if (const auto found = lookup.case_insensitive(key)) return *found;
  if (auto several = several_records(trace, key)) return std::move(*several);
  if (!key.empty()) {
    const auto matches = lookup.layers_holding(key);
    if (matches.size() == 1 && trace.layers.num_passes[matches[0]] == 1) return Found{Found::Kind::kLayer, matches[0]};
    if (matches.size() == 1) return lookup.one_pass(matches[0]).error();
    if (matches.size() > 1) return ambiguous(trace, key, matches);
  }
  std::string hint;
  const auto names = lookup.names();
  for (const auto& close : did_you_mean(key, names)) hint += (hint.empty() ? "did you mean " : ", ") + close;
  if (!hint.empty()) hint += "?";
  return Error(ErrorCode::kLookupNotFound,
               "'" + std::string(key) + "': no layer, op, module, parameter or buffer of that name",
               hint.empty() ? "torchlens show TRACE --layers lists the names" : hint);
}

}  // namespace tl

#include "diff/side.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tl {
namespace {

std::size_t row_of(std::int32_t value) { return static_cast<std::size_t>(value); }

std::string renamed(const Renamer& rename, std::string_view address) {
  return rename ? rename(address) : std::string(address);
}

std::uint64_t hash_sizes(std::span<const std::int64_t> sizes) {
  std::uint64_t hash = 0x5f3c;
  for (const auto size : sizes) hash = hash_mix(hash, static_cast<std::uint64_t>(size));
  return hash;
}

/// Contents of the parameters an Op reads, in argument order; 0 if a digest is unknown.
void fill_weights(const Trace& trace, std::vector<std::uint64_t>& weights) {
  std::vector<bool> unknown(weights.size(), false);
  for (std::size_t use = 0; use < trace.param_uses.op.size(); ++use) {
    const auto op = row_of(trace.param_uses.op[use]);
    const auto digest = trace.params.digest[row_of(trace.param_uses.param[use])];
    if (digest < 0) {
      unknown[op] = true;
    } else {
      weights[op] = hash_mix(weights[op], hash_text(trace.strings[digest]));
    }
  }
  for (std::size_t op = 0; op < weights.size(); ++op) {
    if (unknown[op]) weights[op] = 0;
  }
}

/// Side::matters.
std::vector<bool> rows_that_matter(const Trace& trace) {
  if (!trace.run.outcome.complete()) return std::vector<bool>(trace.num_ops(), true);
  std::vector<bool> matters(trace.num_ops(), false);
  for (auto op = trace.num_ops(); op-- > 0;) {
    const auto kind = static_cast<OpKind>(trace.ops.kind[op]);
    const bool written = kind == OpKind::kBuffer && (trace.ops.flags[op] & kOpBufferWrite) != 0;
    if (kind == OpKind::kOutput || written) matters[op] = true;
    if (!matters[op]) continue;
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
    for (auto edge = begin; edge < end; ++edge) matters[row_of(trace.edges.parent[edge])] = true;
  }
  return matters;
}

struct EntryAt {
  const DumpEntry* entry;
  OpKind kind;
};

EntryAt entry_at(const Dump& dump, std::size_t row) {
  if (row < dump.inputs.size()) return {&dump.inputs[row], OpKind::kInput};
  row -= dump.inputs.size();
  if (row < dump.entries.size()) return {&dump.entries[row], OpKind::kOperation};
  return {&dump.outputs[row - dump.entries.size()], OpKind::kOutput};
}

SiteRef trace_ref(const Trace& trace, std::size_t row) {
  const OpId op{static_cast<std::uint32_t>(row)};
  SiteRef ref;
  ref.row = static_cast<std::int64_t>(row);
  ref.label = op_label(trace, op);
  const auto module = row_of(trace.module_calls.module[row_of(trace.ops.module_call[row])]);
  if (module != 0) {
    ref.module = trace.strings[trace.modules.address[module]];
    ref.module_class = trace.strings[trace.modules.class_name[module]];
  }
  const auto kind = static_cast<OpKind>(trace.ops.kind[row]);
  if (kind != OpKind::kOperation) {
    ref.func_name = layer_type(trace, op);
    ref.module = trace.strings[trace.ops.address[row]];
    ref.module_class.clear();
  } else {
    ref.func_name = func_name(trace, op);
    const auto site = trace.instructions.call_site[row_of(trace.ops.instruction[row])];
    if (site >= 0) {
      ref.file = trace.strings[trace.call_sites.file[row_of(site)]];
      ref.line = trace.call_sites.line[row_of(site)];
    }
  }
  ref.dtype = static_cast<DType>(trace.ops.dtype[row]);
  const auto sizes = trace.shapes[trace.ops.shape[row]];
  ref.sizes.assign(sizes.begin(), sizes.end());
  return ref;
}

SiteRef dump_ref(const Dump& dump, std::size_t row) {
  const auto [entry, kind] = entry_at(dump, row);
  SiteRef ref;
  ref.row = static_cast<std::int64_t>(row);
  ref.label = entry->name + (entry->path.empty() ? "" : "." + entry->path) +
              (entry->call > 1 ? ":" + std::to_string(entry->call) : "");
  ref.module = entry->name;
  ref.module_class = entry->class_name;
  if (kind != OpKind::kOperation) ref.func_name = kind == OpKind::kInput ? "input" : "output";
  ref.file = entry->file;
  ref.line = entry->line;
  ref.dtype = entry->dtype;
  ref.sizes = entry->sizes;
  return ref;
}

KnownStats stats_of(const DumpStatistics& given) {
  KnownStats known;
  known.min = given.min;
  known.max = given.max;
  known.mean = given.mean;
  known.abs_mean = given.abs_mean;
  known.stddev = given.std;
  known.l2 = given.l2;
  known.nan = given.nan;
  known.inf = given.inf;
  return known;
}

/// What a recording took of all elements of a value, whether it was kept or not.
std::optional<KnownStats> recorded_stats(const Trace& trace, std::size_t op) {
  const auto& table = trace.statistics;
  const auto found = table.find(op);
  if (!found) return std::nullopt;
  const auto row = *found;
  const auto real = [&](const Column<double>& column) -> std::optional<double> {
    if (row >= column.size() || std::isnan(column[row])) return std::nullopt;
    return column[row];
  };
  KnownStats known;
  known.numel = checked_numel(trace.shapes[trace.ops.shape[op]]);
  known.min = real(table.min);
  known.max = real(table.max);
  known.mean = real(table.mean);
  known.abs_mean = real(table.abs_mean);
  known.stddev = real(table.std);
  known.l2 = real(table.l2);
  if (row < table.nan.size()) known.nan = table.nan[row];
  if (row < table.posinf.size() && row < table.neginf.size()) known.inf = table.posinf[row] + table.neginf[row];
  return known;
}

template <std::size_t kCount>
bool any_of_names(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::uint64_t hash_mix(std::uint64_t a, std::uint64_t b) {
  // splitmix64's finaliser over both words (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
  auto x = a * 0x9E3779B97F4A7C15ULL + b + 0x7F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

std::uint64_t hash_text(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ seed;  // FNV-1a, mixed at the end
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash_mix(hash, text.size());
}

std::string_view canonical_type(std::string_view type) {
  struct Row {
    std::string_view from, to;
  };
  static constexpr std::array kRows = {Row{"iadd", "add"},
                                       Row{"isub", "sub"},
                                       Row{"imul", "mul"},
                                       Row{"itruediv", "div"},
                                       Row{"idiv", "div"},
                                       Row{"truediv", "div"},
                                       Row{"radd", "add"},
                                       Row{"rmul", "mul"},
                                       Row{"iand", "and"},
                                       Row{"ior", "or"},
                                       Row{"bitwiseand", "and"},
                                       Row{"bitwiseor", "or"},
                                       Row{"convolution", "conv"},
                                       Row{"viewcopy", "view"},
                                       Row{"unsafeview", "view"},
                                       Row{"reshape", "view"},
                                       Row{"safesoftmax", "softmax"},
                                       Row{"splitwithsizes", "split"},
                                       Row{"fill", "copy"}};
  const auto* found = std::ranges::find(kRows, type, &Row::from);
  return found == kRows.end() ? type : found->to;
}

bool has_digests(const Trace& trace) {
  return std::ranges::any_of(trace.params.digest, [](std::int32_t digest) { return digest >= 0; });
}

void place_rows(Side& side, const Renamer& rename) {
  if (side.trace) {
    const auto& trace = *side.trace;
    auto& by_call = side.call_place;
    by_call.assign(trace.module_calls.module.size(), 0);
    for (std::size_t call = 1; call < by_call.size(); ++call) {
      const auto address = trace.strings[trace.modules.address[row_of(trace.module_calls.module[call])]];
      by_call[call] =
          hash_text(renamed(rename, address), static_cast<std::uint64_t>(trace.module_calls.call_index[call]));
    }
    for (std::size_t op = 0; op < side.size(); ++op) {
      side.place[op] = by_call.empty() ? 0 : by_call[row_of(trace.ops.module_call[op])];
    }
    return;
  }
  for (std::size_t row = 0; row < side.size(); ++row) {
    const auto [entry, kind] = entry_at(*side.dump, row);
    side.place[row] = hash_text(renamed(rename, entry->name), static_cast<std::uint64_t>(entry->call));
  }
}

Side make_side(const Trace& trace, const Renamer& rename) {
  Side side;
  side.trace = &trace;
  const auto rows = trace.num_ops();
  side.kind.resize(rows);
  side.type.resize(rows);
  side.shape.resize(rows);
  side.weights.assign(rows, 0);
  side.place.resize(rows);
  std::vector<std::uint64_t> type_of_instruction(trace.instructions.op_name.size());
  for (std::size_t i = 0; i < type_of_instruction.size(); ++i) {
    type_of_instruction[i] = hash_text(canonical_type(trace.strings[trace.instructions.layer_type[i]]));
  }
  std::vector<std::uint64_t> hash_of_shape(trace.shapes.size());
  for (std::size_t i = 0; i < hash_of_shape.size(); ++i) {
    hash_of_shape[i] = hash_sizes(trace.shapes[static_cast<std::int32_t>(i)]);
  }
  for (std::size_t op = 0; op < rows; ++op) {
    side.kind[op] = static_cast<OpKind>(trace.ops.kind[op]);
    const auto instruction = trace.ops.instruction[op];
    const auto type = instruction < 0 ? trace.ops.kind[op] : type_of_instruction[row_of(instruction)];
    side.type[op] = hash_mix(type, trace.ops.num_slots[op] > 1 ? trace.ops.slot[op] : 0);
    side.shape[op] = hash_of_shape[row_of(trace.ops.shape[op])];
  }
  fill_weights(trace, side.weights);
  side.matters = rows_that_matter(trace);
  place_rows(side, rename);
  return side;
}

Side make_side(const Dump& dump, const Renamer& rename) {
  Side side;
  side.dump = &dump;
  const auto rows = dump.inputs.size() + dump.entries.size() + dump.outputs.size();
  side.kind.resize(rows);
  side.type.resize(rows);
  side.shape.resize(rows);
  side.weights.assign(rows, 0);
  side.matters.assign(rows, true);
  side.place.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto [entry, kind] = entry_at(dump, row);
    side.kind[row] = kind;
    side.type[row] = hash_text(entry->class_name);
    side.shape[row] = hash_sizes(entry->sizes);
  }
  place_rows(side, rename);
  return side;
}

SiteRef site_ref(const Side& side, std::size_t row) {
  return side.trace ? trace_ref(*side.trace, row) : dump_ref(*side.dump, row);
}

bool is_neutral_type(std::string_view layer_type) {
  static constexpr std::array<std::string_view, 32> kNeutral = {
      "alias",       "clone",          "contiguous",    "detach",   "dropout",   "expand",
      "expandas",    "flatten",        "identity",      "lift",     "liftfresh", "numpyt",
      "permute",     "reshape",        "reshapeas",     "squeeze",  "t",         "to",
      "transpose",   "typeas",         "view",          "viewas",   "unflatten", "unsafeview",
      "unsqueeze",   "featuredropout", "liftfreshcopy", "swapaxes", "movedim",   "tocopy",
      "addbatchdim", "removebatchdim"};
  return any_of_names(kNeutral, layer_type);
}

bool moves_elements(std::string_view layer_type) {
  static constexpr std::array<std::string_view, 14> kMoving = {
      "permute", "transpose", "t",       "swapaxes",  "movedim",    "view",    "viewas",
      "reshape", "reshapeas", "flatten", "unflatten", "unsafeview", "squeeze", "unsqueeze"};
  return any_of_names(kMoving, layer_type);
}

bool is_neutral(const Trace& trace, std::size_t op) {
  if (trace.ops.kind[op] != 0 || (trace.ops.flags[op] & kOpUninitialised)) return true;
  const auto sizes = trace.shapes[trace.ops.shape[op]];
  if (std::ranges::find(sizes, 0) != sizes.end()) return true;
  const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
  const auto type = layer_type(trace, OpId{static_cast<std::uint32_t>(op)});
  if (begin != end) {
    const auto parent = row_of(trace.edges.parent[begin]);
    if (trace.ops.dtype[op] != trace.ops.dtype[parent]) return false;
    if (type == "slice") return trace.ops.shape[op] == trace.ops.shape[parent];  // all of it, as x[:] is
  } else if (type == "slice") {
    const auto use = std::ranges::lower_bound(trace.param_uses.op, static_cast<std::int32_t>(op));
    if (use == trace.param_uses.op.end() || *use != static_cast<std::int32_t>(op)) return false;
    const auto param =
        row_of(trace.param_uses.param[row_of(static_cast<std::int32_t>(use - trace.param_uses.op.begin()))]);
    return trace.ops.shape[op] == trace.params.shape[param];
  }
  return is_neutral_type(type);
}

bool is_quantiser(const Trace& trace, std::size_t op) {
  const auto type = layer_type(trace, OpId{static_cast<std::uint32_t>(op)});
  return type.find("quantize") != std::string_view::npos;
}

std::int64_t payload_of(const Side& side, std::size_t row) {
  if (!side.trace) return -1;
  const auto payload = side.trace->ops.payload[row];
  return payload >= 0 ? payload : side.trace->ops.sample[row];
}

SideValue value_of(const Side& side, std::size_t row) {
  SideValue value;
  if (!side.trace) {
    const auto& entry = *entry_at(*side.dump, row).entry;
    value.evidence = entry.evidence;
    value.tensor = entry.value;
    value.statistics = stats_of(entry.statistics);
    const bool needs_tensor = value.evidence == Evidence::kFull || value.evidence == Evidence::kSampled;
    if (needs_tensor && !value.tensor) value.evidence = Evidence::kShape;
    return value;
  }
  const auto payload = payload_of(side, row);
  if (payload >= 0 && side.trace->payload_source) {
    value.tensor = side.trace->payload_source->tensor(PayloadId{static_cast<std::uint32_t>(payload)});
  }
  const bool full = value.tensor && side.trace->ops.payload[row] >= 0;
  const auto stats = full ? std::nullopt : recorded_stats(*side.trace, row);
  if (stats) value.statistics = *stats;
  value.evidence = full           ? Evidence::kFull
                   : value.tensor ? Evidence::kSampled
                   : stats        ? Evidence::kStatistics
                                  : Evidence::kShape;
  return value;
}

DType dtype_of(const Side& side, std::size_t row) {
  return side.trace ? static_cast<DType>(side.trace->ops.dtype[row]) : entry_at(*side.dump, row).entry->dtype;
}

std::vector<std::int64_t> sizes_of(const Side& side, std::size_t row) {
  if (!side.trace) return entry_at(*side.dump, row).entry->sizes;
  const auto sizes = side.trace->shapes[side.trace->ops.shape[row]];
  return {sizes.begin(), sizes.end()};
}

std::string_view module_of(const Side& side, std::size_t row) {
  if (!side.trace) return entry_at(*side.dump, row).entry->name;
  const auto& trace = *side.trace;
  return trace.strings[trace.modules.address[row_of(trace.module_calls.module[row_of(trace.ops.module_call[row])])]];
}

const DumpModule* dump_module(const Side& side, std::size_t row) {
  if (!side.dump) return nullptr;
  const auto module = entry_at(*side.dump, row).entry->module_row;
  return module < 0 ? nullptr : &side.dump->modules[row_of(module)];
}

}  // namespace tl

#include <algorithm>
#include <map>
#include <optional>

#include "core/digest.h"
#include "diff/align_parts.h"
#include "diff/cause.h"
#include "diff/sequence.h"
#include "diff/values.h"

namespace tl {
namespace {

std::size_t row_of(std::int64_t value) { return static_cast<std::size_t>(value); }

/// The value that a module call returned first, on either side; of the root every one.
struct Item {
  std::uint32_t row = 0;              ///< of the side
  std::uint64_t place = 0;            ///< address after renaming, and number of the call
  std::uint64_t path = 0;             ///< of several values of the root, which
  std::uint64_t kind = 0;             ///< class and sizes; 0 where no class is known
  std::uint64_t weights = 0;          ///< contents of the module's own parameters; 0 where none or unknown
  std::int32_t call = -1;             ///< row of module_calls; -1 for entries of a dump
  std::vector<std::uint32_t> others;  ///< rows that the call may have returned besides, in order
};

constexpr std::uint64_t kTapSeed = 0x7a9;  // a tap is no module of the same name

std::string_view owner_of(std::string_view address) {
  const auto dot = address.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : address.substr(0, dot);
}

/// Contents of each module's own parameters, by address.
std::map<std::string, std::uint64_t, std::less<>> module_weights(const Side& side) {
  std::map<std::string, std::vector<std::uint64_t>, std::less<>> digests;
  const auto add = [&](std::string_view address, std::string_view digest) {
    auto& list = digests[std::string(owner_of(address))];
    list.push_back(digest.empty() ? 0 : hash_text(digest));
  };
  if (side.trace) {
    const auto& trace = *side.trace;
    for (std::size_t row = 0; row < trace.params.address.size(); ++row) {
      add(trace.strings[trace.params.address[row]], trace.strings[trace.params.digest[row]]);
    }
  } else {
    for (const auto& param : side.dump->params) {
      if (!param.is_buffer) add(param.address, param.digest);
    }
  }
  std::map<std::string, std::uint64_t, std::less<>> weights;
  for (auto& [address, list] : digests) {
    std::ranges::sort(list);
    std::uint64_t hash = list.front() == 0 ? 0 : list.size();
    for (const auto digest : list) hash = hash == 0 ? 0 : hash_mix(hash, digest);
    weights[address] = hash;
  }
  return weights;
}

std::uint64_t weights_at(const std::map<std::string, std::uint64_t, std::less<>>& weights, std::string_view address) {
  const auto found = weights.find(address);
  return found == weights.end() ? 0 : found->second;
}

std::uint64_t hash_path(std::string_view path) { return path.empty() ? 0 : hash_text(path); }

/// Entries of a dump. Several values of one call are one item, unless the call is the model's.
std::vector<Item> items_of_dump(const Side& side) {
  std::vector<Item> items;
  const auto weights = module_weights(side);
  std::map<std::uint64_t, std::size_t> item_at;  // by place
  for (std::size_t i = 0; i < side.dump->entries.size(); ++i) {
    const auto& entry = side.dump->entries[i];
    const auto row = static_cast<std::uint32_t>(side.dump->inputs.size() + i);
    const bool root = entry.name.empty() || entry.name == "self";
    const auto place = root ? 0 : entry.is_tap ? hash_mix(side.place[row], kTapSeed) : side.place[row];
    const auto [found, fresh] = item_at.emplace(place, items.size());
    if (!fresh && !root) {
      items[found->second].others.push_back(row);
      continue;
    }
    items.push_back({row,
                     place,
                     root ? hash_path(entry.path) : 0,
                     entry.class_name.empty() ? 0 : hash_mix(side.type[row], side.shape[row]),
                     weights_at(weights, entry.name),
                     -1,
                     {}});
  }
  return items;
}

/// The last row that reads each row; -1 where none does.
std::vector<std::int32_t> last_readers(const Trace& trace) {
  std::vector<std::int32_t> last(trace.num_ops(), -1);
  for (std::uint32_t op = 0; op < last.size(); ++op) {
    const auto [begin, end] = edge_range(trace, OpId{op});
    for (auto edge = begin; edge < end; ++edge) last[row_of(trace.edges.parent[edge])] = static_cast<std::int32_t>(op);
  }
  return last;
}

/// What the model returned: the operations behind the outputs, by path.
void add_root_items(const Side& side, std::uint64_t type, std::uint64_t weights, std::vector<Item>& items) {
  const auto& trace = *side.trace;
  for (std::uint32_t op = 0; op < side.size(); ++op) {
    if (side.kind[op] != OpKind::kOutput) continue;
    const auto [begin, end] = edge_range(trace, OpId{op});
    if (begin == end) continue;
    auto path = trace.strings[trace.ops.address[op]];
    path.remove_prefix(std::min(path.size(), std::string_view("output.").size()));
    const auto row = static_cast<std::uint32_t>(trace.edges.parent[begin]);
    items.push_back({row, 0, hash_path(path), hash_mix(type, side.shape[row]), weights, 0, {}});
  }
}

/// Outputs of module calls in the order they returned, inner calls first.
std::vector<Item> items_of_trace(const Side& side) {
  std::vector<Item> items;
  const auto weights = module_weights(side);
  const auto& trace = *side.trace;
  const auto last_reader = last_readers(trace);
  std::vector<std::uint32_t> calls(trace.module_calls.module.size());
  for (std::uint32_t call = 0; call < calls.size(); ++call) calls[call] = call;
  std::ranges::sort(calls, [&](std::uint32_t a, std::uint32_t b) {
    const auto end_a = trace.module_calls.end_op[a];
    const auto end_b = trace.module_calls.end_op[b];
    return end_a != end_b ? end_a < end_b : a > b;
  });
  for (const auto call : calls) {
    const auto module = row_of(trace.module_calls.module[call]);
    const auto type = hash_text(trace.strings[trace.modules.class_name[module]]);
    const auto own = weights_at(weights, trace.strings[trace.modules.address[module]]);
    if (call == 0) {
      add_root_items(side, type, own, items);
      continue;
    }
    const auto op = trace.module_calls.output_op[call];
    if (op < 0) continue;
    Item item{static_cast<std::uint32_t>(op),
              side.call_place[call],
              0,
              hash_mix(type, side.shape[row_of(op)]),
              own,
              static_cast<std::int32_t>(call),
              {}};
    const auto end = trace.module_calls.end_op[call];
    for (auto row = trace.module_calls.first_op[call]; row < end; ++row) {
      const bool leaves = last_reader[row_of(row)] < 0 || last_reader[row_of(row)] >= end;
      if (leaves && row != op && side.kind[row_of(row)] == OpKind::kOperation) {
        item.others.push_back(static_cast<std::uint32_t>(row));
      }
    }
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<Item> items_of(const Side& side) { return side.dump ? items_of_dump(side) : items_of_trace(side); }

/// Element type, sizes and digest of a value; empty where it is not kept whole, or so plain that equality says nothing.
std::string content_of(const Side& side, std::size_t row) {
  const auto value = value_of(side, row);
  if (value.evidence != Evidence::kFull || value.tensor->kind() != TensorKind::kStrided) return {};
  const auto tensor = to_contiguous(value.tensor->to_host().at(0).tensor);
  constexpr std::int64_t kFewest = 8;
  if (tensor.numel() < kFewest) return {};
  const auto item = item_bytes(tensor.dtype);
  const auto bytes = tensor.storage.subspan(static_cast<std::size_t>(tensor.offset) * item, tensor.nbytes());
  if (std::ranges::equal(bytes.first(bytes.size() - item), bytes.subspan(item))) return {};  // one value throughout
  return digest_hex(bytes);
}

class DumpAligner {
 public:
  DumpAligner(const Side& reference, const Side& subject)
      : pairs_(reference, subject), ours_(items_of(reference)), theirs_(items_of(subject)) {
    our_partner_.assign(ours_.size(), -1);
    their_partner_.assign(theirs_.size(), -1);
    const auto* trace = reference.trace ? reference.trace : subject.trace;
    if (trace) pairs_.result.call_of.assign(trace->num_ops(), -1);
  }

  Alignment run(bool values) {
    match_roles(pairs_);
    match([](const Item& item) { return hash_mix(item.place, item.path) | 1; }, MatchBasis::kSiteKey);
    match([](const Item& item) { return item.weights == 0 ? 0 : hash_mix(item.weights, item.path) | 1; },
          MatchBasis::kParameters);
    match_in_order();
    match_others();
    if (values) {
      match_values();
      match_near_taps();
    }
    match_labels();
    return std::move(pairs_.result);
  }

 private:
  void add(std::size_t i, std::size_t j, MatchBasis basis) {
    our_partner_[i] = static_cast<std::int32_t>(j);
    their_partner_[j] = static_cast<std::int32_t>(i);
    add_rows(ours_[i].row, theirs_[j].row, basis, std::max(ours_[i].call, theirs_[j].call));
  }

  /// Several entries of a dump may be one value of a Trace: what the model and its last module return.
  void add_rows(std::uint32_t ours, std::uint32_t theirs, MatchBasis basis, std::int32_t call) {
    auto& result = pairs_.result;
    if (result.subject_of[ours] >= 0) {
      if (result.reference_of[theirs] < 0) result.reference_of[theirs] = static_cast<std::int32_t>(ours);
      return;
    }
    pairs_.add(ours, theirs, basis);
    if (call > 0) result.call_of[pairs_.reference.trace ? ours : theirs] = call;
  }

  /// Further values of matched calls, by sizes in order where both sides have as many of them. A value of a Trace is
  /// one that a call may have returned if it is read outside of it, or nowhere.
  void match_others() {
    for (std::size_t i = 0; i < ours_.size(); ++i) {
      if (our_partner_[i] < 0) continue;
      const auto& theirs = theirs_[row_of(our_partner_[i])];
      const auto basis = pairs_.result.basis[ours_[i].row];
      std::map<std::uint64_t, std::pair<std::vector<std::uint32_t>, std::vector<std::uint32_t>>> groups;
      for (const auto row : ours_[i].others) groups[pairs_.reference.shape[row]].first.push_back(row);
      for (const auto row : theirs.others) groups[pairs_.subject.shape[row]].second.push_back(row);
      for (const auto& [shape, group] : groups) {
        if (group.first.size() != group.second.size()) continue;
        for (std::size_t k = 0; k < group.first.size(); ++k) {
          add_rows(group.first[k], group.second[k], basis, std::max(ours_[i].call, theirs.call));
        }
      }
    }
  }

  /// Items of equal key, k-th with k-th, where both sides have as many.
  template <typename Key>
  void match(const Key& key, MatchBasis basis) {
    std::map<std::uint64_t, std::pair<std::vector<std::size_t>, std::vector<std::size_t>>> groups;
    for (std::size_t i = 0; i < ours_.size(); ++i) {
      if (our_partner_[i] < 0 && key(ours_[i]) != 0) groups[key(ours_[i])].first.push_back(i);
    }
    for (std::size_t j = 0; j < theirs_.size(); ++j) {
      if (their_partner_[j] < 0 && key(theirs_[j]) != 0) groups[key(theirs_[j])].second.push_back(j);
    }
    for (const auto& [value, group] : groups) {
      if (group.first.size() != group.second.size()) continue;
      for (std::size_t k = 0; k < group.first.size(); ++k) add(group.first[k], group.second[k], basis);
    }
  }

  /// Between matched neighbours, by class and sizes.
  void match_in_order() {
    std::size_t i = 0;
    std::size_t j = 0;
    for (std::size_t end = 0; end <= ours_.size(); ++end) {
      const bool last = end == ours_.size();
      if (!last && (our_partner_[end] < 0 || row_of(our_partner_[end]) < j)) continue;
      const auto j_end = last ? theirs_.size() : row_of(our_partner_[end]);
      match_gap(i, end, j, j_end);
      i = end + 1;
      j = j_end + 1;
    }
  }

  void match_gap(std::size_t i, std::size_t i_end, std::size_t j, std::size_t j_end) {
    std::vector<std::size_t> ours;
    std::vector<std::size_t> theirs;
    std::vector<std::uint64_t> our_tokens;
    std::vector<std::uint64_t> their_tokens;
    for (; i < i_end; ++i) {
      if (our_partner_[i] >= 0 || ours_[i].kind == 0) continue;
      ours.push_back(i);
      our_tokens.push_back(ours_[i].kind);
    }
    for (; j < j_end; ++j) {
      if (their_partner_[j] >= 0 || theirs_[j].kind == 0) continue;
      theirs.push_back(j);
      their_tokens.push_back(theirs_[j].kind);
    }
    for (const auto& [a, b] : align_sequences(our_tokens, their_tokens)) add(ours[a], theirs[b], MatchBasis::kSequence);
  }

  /// Entries without a partner, taps above all: the first operation of an equal value.
  void match_values() {
    const bool dump_first = pairs_.reference.dump != nullptr;
    const auto& dump_side = dump_first ? pairs_.reference : pairs_.subject;
    const auto& trace_side = dump_first ? pairs_.subject : pairs_.reference;
    if (!trace_side.trace) return;
    const auto& of_entry = dump_first ? pairs_.result.subject_of : pairs_.result.reference_of;
    const auto& of_op = dump_first ? pairs_.result.reference_of : pairs_.result.subject_of;
    std::map<std::pair<std::uint64_t, DType>, std::map<std::string, std::uint32_t>> sought;
    for (std::uint32_t row = 0; row < dump_side.size(); ++row) {
      if (dump_side.kind[row] != OpKind::kOperation || of_entry[row] >= 0) continue;
      auto content = content_of(dump_side, row);
      if (content.empty()) continue;
      sought[{dump_side.shape[row], dtype_of(dump_side, row)}].emplace(std::move(content), row);
    }
    for (std::uint32_t op = 0; op < trace_side.size() && !sought.empty(); ++op) {
      if (trace_side.kind[op] != OpKind::kOperation || of_op[op] >= 0) continue;
      const auto group = sought.find({trace_side.shape[op], dtype_of(trace_side, op)});
      if (group == sought.end()) continue;
      const auto found = group->second.find(content_of(trace_side, op));
      if (found == group->second.end()) continue;
      pairs_.add(dump_first ? found->second : op, dump_first ? op : found->second, MatchBasis::kContent);
      group->second.erase(found);
    }
  }

  /// Taps whose value a kernel rounded otherwise: the first operation of their sizes that is as near as rounding
  /// allows. A pair found so can only agree, so nothing is blamed on it.
  void match_near_taps() {
    const bool dump_first = pairs_.reference.dump != nullptr;
    const auto& dump_side = dump_first ? pairs_.reference : pairs_.subject;
    const auto& trace_side = dump_first ? pairs_.subject : pairs_.reference;
    if (!trace_side.trace) return;
    constexpr int kMostTaps = 64;
    int taps = 0;
    for (std::size_t i = 0; i < dump_side.dump->entries.size() && taps < kMostTaps; ++i) {
      const auto row = dump_side.dump->inputs.size() + i;
      const auto& of_entry = dump_first ? pairs_.result.subject_of : pairs_.result.reference_of;
      if (!dump_side.dump->entries[i].is_tap || of_entry[row] >= 0) continue;
      ++taps;
      const auto op = nearest_op(dump_side, row, trace_side, dump_first);
      if (op) pairs_.add(dump_first ? row : *op, dump_first ? *op : row, MatchBasis::kContent);
    }
  }

  std::optional<std::size_t> nearest_op(const Side& dump_side, std::size_t row, const Side& trace_side,
                                        bool dump_first) const {
    const auto& of_op = dump_first ? pairs_.result.reference_of : pairs_.result.subject_of;
    const auto roundoff = unit_roundoff(dtype_of(dump_side, row));
    if (roundoff == 0 || content_of(dump_side, row).empty()) return std::nullopt;
    for (std::uint32_t op = 0; op < trace_side.size(); ++op) {
      if (trace_side.kind[op] != OpKind::kOperation || of_op[op] >= 0) continue;
      if (trace_side.shape[op] != dump_side.shape[row] || dtype_of(trace_side, op) != dtype_of(dump_side, row))
        continue;
      DiffSite site;
      site.reference.dtype = site.subject.dtype = dtype_of(dump_side, row);
      site.reference.sizes = site.subject.sizes = sizes_of(dump_side, row);
      compare_values(dump_side, row, trace_side, op, {}, site);
      const auto depth = trace_side.trace->ops.max_distance_from_input[op];
      if (site.evidence == Evidence::kFull && site.error <= noise_floor(roundoff, depth)) return op;
    }
    return std::nullopt;
  }

  /// Entries that are named as an Op is: taps, tensors of a file.
  void match_labels() {
    const bool dump_first = pairs_.reference.dump != nullptr;
    const auto& dump_side = dump_first ? pairs_.reference : pairs_.subject;
    const auto& trace_side = dump_first ? pairs_.subject : pairs_.reference;
    if (!trace_side.trace) return;
    std::map<std::string, std::size_t, std::less<>> by_label;
    for (std::uint32_t op = 0; op < trace_side.size(); ++op)
      by_label.emplace(op_label(*trace_side.trace, OpId{op}), op);
    for (std::size_t i = 0; i < dump_side.dump->entries.size(); ++i) {
      const auto row = dump_side.dump->inputs.size() + i;
      const auto found = by_label.find(dump_side.dump->entries[i].name);
      if (found == by_label.end()) continue;
      const auto r = dump_first ? row : found->second;
      const auto s = dump_first ? found->second : row;
      if (pairs_.result.subject_of[r] < 0 && pairs_.result.reference_of[s] < 0) pairs_.add(r, s, MatchBasis::kSiteKey);
    }
  }

  Pairs pairs_;
  std::vector<Item> ours_;
  std::vector<Item> theirs_;
  std::vector<std::int32_t> our_partner_;
  std::vector<std::int32_t> their_partner_;
};

}  // namespace

Alignment align_with_dump(const Side& reference, const Side& subject, const AlignOptions& options) {
  return DumpAligner(reference, subject).run(options.values);
}

}  // namespace tl

#include <algorithm>
#include <map>

#include "diff/align_parts.h"
#include "diff/sequence.h"

namespace tl {
namespace {

std::size_t row_of(std::int64_t value) { return static_cast<std::size_t>(value); }

/// A value that a module call returned, on either side.
struct Item {
  std::uint32_t row = 0;      ///< of the side
  std::uint64_t place = 0;    ///< address after renaming, and number of the call
  std::uint64_t path = 0;     ///< which of several values of one call
  std::uint64_t kind = 0;     ///< class and sizes
  std::uint64_t weights = 0;  ///< contents of the module's own parameters; 0 where none or unknown
};

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

/// Outputs of module calls in the order they returned, inner calls first.
std::vector<Item> items_of(const Side& side) {
  std::vector<Item> items;
  const auto weights = module_weights(side);
  if (side.dump) {
    std::map<std::uint64_t, std::uint64_t> paths;
    for (std::size_t i = 0; i < side.dump->entries.size(); ++i) {
      const auto& entry = side.dump->entries[i];
      const auto row = static_cast<std::uint32_t>(side.dump->inputs.size() + i);
      const bool root = entry.name.empty() || entry.name == "self";
      const auto place = root ? 0 : side.place[row];
      items.push_back(
          {row, place, paths[place]++, hash_mix(side.type[row], side.shape[row]), weights_at(weights, entry.name)});
    }
    return items;
  }
  const auto& trace = *side.trace;
  std::vector<std::uint32_t> calls(trace.module_calls.module.size());
  for (std::uint32_t call = 0; call < calls.size(); ++call) calls[call] = call;
  std::ranges::sort(calls, [&](std::uint32_t a, std::uint32_t b) {
    const auto end_a = trace.module_calls.end_op[a];
    const auto end_b = trace.module_calls.end_op[b];
    return end_a != end_b ? end_a < end_b : a > b;
  });
  for (const auto call : calls) {
    const auto op = trace.module_calls.output_op[call];
    if (op < 0) continue;
    const auto module = row_of(trace.module_calls.module[call]);
    const auto type = hash_text(trace.strings[trace.modules.class_name[module]]);
    items.push_back({static_cast<std::uint32_t>(op), call == 0 ? 0 : side.call_place[call], 0,
                     hash_mix(type, side.shape[row_of(op)]),
                     weights_at(weights, trace.strings[trace.modules.address[module]])});
  }
  return items;
}

class DumpAligner {
 public:
  DumpAligner(const Side& reference, const Side& subject)
      : pairs_(reference, subject), ours_(items_of(reference)), theirs_(items_of(subject)) {
    our_partner_.assign(ours_.size(), -1);
    their_partner_.assign(theirs_.size(), -1);
  }

  Alignment run() {
    match_roles(pairs_);
    match([](const Item& item) { return hash_mix(item.place, item.path) | 1; }, MatchBasis::kSiteKey);
    match([](const Item& item) { return item.weights == 0 ? 0 : hash_mix(item.weights, item.path) | 1; },
          MatchBasis::kParameters);
    match_in_order();
    match_labels();
    return std::move(pairs_.result);
  }

 private:
  void add(std::size_t i, std::size_t j, MatchBasis basis) {
    our_partner_[i] = static_cast<std::int32_t>(j);
    their_partner_[j] = static_cast<std::int32_t>(i);
    if (pairs_.result.subject_of[ours_[i].row] < 0) pairs_.add(ours_[i].row, theirs_[j].row, basis);
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
      if (our_partner_[i] >= 0) continue;
      ours.push_back(i);
      our_tokens.push_back(ours_[i].kind);
    }
    for (; j < j_end; ++j) {
      if (their_partner_[j] >= 0) continue;
      theirs.push_back(j);
      their_tokens.push_back(theirs_[j].kind);
    }
    for (const auto& [a, b] : align_sequences(our_tokens, their_tokens)) add(ours[a], theirs[b], MatchBasis::kSequence);
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

Alignment align_with_dump(const Side& reference, const Side& subject, const AlignOptions&) {
  return DumpAligner(reference, subject).run();
}

}  // namespace tl

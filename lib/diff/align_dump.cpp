#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "diff/align_parts.h"
#include "diff/call_matcher.h"
#include "diff/call_values.h"
#include "diff/cause.h"
#include "diff/sequence.h"
#include "diff/value_digests.h"
#include "diff/values.h"

namespace tl {
namespace {

std::size_t row_of(std::int64_t value) { return static_cast<std::size_t>(value); }

std::string_view owner_of(std::string_view address) {
  const auto dot = address.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : address.substr(0, dot);
}

class DumpAligner {
 public:
  DumpAligner(const Side& reference, const Side& subject, bool values)
      : pairs_(reference, subject),
        dump_first_(reference.dump != nullptr),
        dump_side_(dump_first_ ? reference : subject),
        other_side_(dump_first_ ? subject : reference),
        dump_digests_(dump_side_, values),
        other_digests_(other_side_, values),
        matcher_(dump_side_, other_side_, dump_digests_, other_digests_, pairs_),
        ours_(call_values(reference)),
        theirs_(call_values(subject)),
        basis_(ours_.size()) {
    our_partner_.assign(ours_.size(), -1);
    their_partner_.assign(theirs_.size(), -1);
    pairs_.result.unread.assign(dump_side_.size(), false);
    if (other_side_.trace) pairs_.result.call_of.assign(other_side_.size(), -1);
  }

  Alignment run() {
    match_roles(pairs_);
    match([](const CallValues& item) { return hash_mix(item.place, item.path) | 1; }, MatchBasis::kSiteKey);
    match([](const CallValues& item) { return item.weights == 0 ? 0 : hash_mix(item.weights, item.path) | 1; },
          MatchBasis::kParameters);
    match_in_order();
    match_rows();
    if (other_side_.trace) {
      if (dump_digests_.reads_values()) {
        match_values();
        match_near_taps();
      }
      match_labels();
      settle_shared();
      leave_out_repeated();
      leave_out_inside_unread();
    }
    return std::move(pairs_.result);
  }

 private:
  /// An entry that stands for the operation `op`.
  struct Standing {
    std::uint32_t op = 0;
    std::uint32_t entry = 0;
    std::int32_t call = -1;
  };

  std::vector<std::int32_t>& of_entry() { return dump_first_ ? pairs_.result.subject_of : pairs_.result.reference_of; }
  std::vector<std::int32_t>& of_op() { return dump_first_ ? pairs_.result.reference_of : pairs_.result.subject_of; }

  void add(std::size_t i, std::size_t j, MatchBasis basis) {
    our_partner_[i] = static_cast<std::int32_t>(j);
    their_partner_[j] = static_cast<std::int32_t>(i);
    basis_[i] = basis;
  }

  /// The values of matched calls: of the model, where paths are known, then of others in the order they returned.
  void match_rows() {
    for (const bool model : {true, false}) match_rows(model);
  }

  void match_rows(bool model) {
    for (std::size_t i = 0; i < ours_.size(); ++i) {
      if (our_partner_[i] < 0 || model != (ours_[i].place == 0)) continue;
      const auto& theirs = theirs_[row_of(our_partner_[i])];
      const auto found = dump_first_ ? matcher_.match(ours_[i], theirs) : matcher_.match(theirs, ours_[i]);
      for (const auto& [a, b] : found.pairs) add_rows(a, b, basis_[i], std::max(ours_[i].call, theirs.call));
      const bool complete = other_side_.trace && other_side_.trace->run.outcome.complete();
      for (const auto row : found.unread) pairs_.result.unread[row] = complete;
    }
  }

  /// Several entries of a dump may be one value of a Trace: what a module and its last submodule return. That of the
  /// innermost, which returned first, is the pair.
  void add_rows(std::uint32_t entry, std::uint32_t op, MatchBasis basis, std::int32_t call) {
    if (of_entry()[entry] >= 0) return;
    if (other_side_.trace) standing_.push_back({op, entry, call});
    const auto before = of_op()[op];
    if (before < 0) {
      pairs_.add(dump_first_ ? entry : op, dump_first_ ? op : entry, basis);
      return;
    }
    if (other_side_.dump) return;
    of_entry()[entry] = static_cast<std::int32_t>(op);
    const bool is_inner = entry < row_of(before);
    if (is_inner) of_op()[op] = static_cast<std::int32_t>(entry);
    if (dump_first_ || is_inner) pairs_.result.basis[dump_first_ ? entry : op] = basis;
  }

  /// Entries that stand for one operation, but do not have one value, are places of their own.
  void settle_shared() {
    std::ranges::sort(standing_, {}, [](const Standing& each) { return std::pair(each.op, each.entry); });
    std::vector<std::string> values;  // of the entries of one operation, each once
    for (std::size_t i = 0; i < standing_.size(); ++i) {
      const auto& [op, entry, call] = standing_[i];
      const auto innermost = row_of(of_op()[op]);
      if (entry == innermost && call > 0) pairs_.result.call_of[op] = call;
      if (i == 0 || standing_[i - 1].op != op) values = {dump_digests_.of(innermost)};
      if (entry == innermost || values[0].empty()) continue;
      const auto& value = dump_digests_.of(entry);
      if (value.empty() || std::ranges::find(values, value) != values.end()) continue;
      values.push_back(value);
      pairs_.result.further.push_back({op, entry, call});
    }
  }

  /// An entry without a partner that has the value of another entry or of an input, as of a module that hands on what
  /// it was given, says nothing that the other one does not.
  void leave_out_repeated() {
    for (std::uint32_t row = 0; row < dump_side_.size(); ++row) {
      if (dump_side_.kind[row] != OpKind::kOperation || of_entry()[row] >= 0) continue;
      for (const auto other : matcher_.repetitions(row)) {
        const auto op = of_entry()[other];
        if (op < 0) continue;
        of_entry()[row] = op;
        if (dump_first_) pairs_.result.basis[row] = MatchBasis::kContent;
        break;
      }
    }
  }

  /// What a module computed for a value that nothing reads is not there either, if its call is not.
  void leave_out_inside_unread() {
    std::set<std::string_view> unread;
    const auto& dump = *dump_side_.dump;
    const auto row_at = [&](std::size_t entry) { return dump.inputs.size() + entry; };
    for (std::size_t i = 0; i < dump.entries.size(); ++i) {
      if (pairs_.result.unread[row_at(i)]) unread.insert(dump.entries[i].name);
    }
    if (unread.empty()) return;
    const std::set<std::uint64_t> places(other_side_.call_place.begin(), other_side_.call_place.end());
    for (std::size_t i = 0; i < dump.entries.size(); ++i) {
      if (of_entry()[row_at(i)] >= 0 || places.contains(dump_side_.place[row_at(i)])) continue;
      for (auto above = owner_of(dump.entries[i].name); !above.empty(); above = owner_of(above)) {
        if (unread.contains(above)) pairs_.result.unread[row_at(i)] = true;
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
    std::map<std::pair<std::uint64_t, DType>, std::map<std::string, std::uint32_t>> sought;
    for (std::uint32_t row = 0; row < dump_side_.size(); ++row) {
      if (dump_side_.kind[row] != OpKind::kOperation || of_entry()[row] >= 0) continue;
      auto content = dump_digests_.telling(row);
      if (content.empty()) continue;
      sought[{dump_side_.shape[row], dtype_of(dump_side_, row)}].emplace(std::move(content), row);
    }
    for (std::uint32_t op = 0; op < other_side_.size() && !sought.empty(); ++op) {
      if (other_side_.kind[op] != OpKind::kOperation || of_op()[op] >= 0) continue;
      const auto group = sought.find({other_side_.shape[op], dtype_of(other_side_, op)});
      if (group == sought.end()) continue;
      const auto found = group->second.find(other_digests_.telling(op));
      if (found == group->second.end()) continue;
      pairs_.add(dump_first_ ? found->second : op, dump_first_ ? op : found->second, MatchBasis::kContent);
      group->second.erase(found);
    }
  }

  /// Taps whose value a kernel rounded otherwise: the first operation of their sizes that is as near as rounding
  /// allows. A pair found so can only agree, so nothing is blamed on it.
  void match_near_taps() {
    constexpr int kMostTaps = 64;
    int taps = 0;
    for (std::size_t i = 0; i < dump_side_.dump->entries.size() && taps < kMostTaps; ++i) {
      const auto row = dump_side_.dump->inputs.size() + i;
      if (!dump_side_.dump->entries[i].is_tap || of_entry()[row] >= 0) continue;
      ++taps;
      const auto op = nearest_op(row);
      if (op) pairs_.add(dump_first_ ? row : *op, dump_first_ ? *op : row, MatchBasis::kContent);
    }
  }

  std::optional<std::size_t> nearest_op(std::size_t row) {
    const auto roundoff = unit_roundoff(dtype_of(dump_side_, row));
    if (roundoff == 0 || dump_digests_.telling(row).empty()) return std::nullopt;
    for (std::uint32_t op = 0; op < other_side_.size(); ++op) {
      if (other_side_.kind[op] != OpKind::kOperation || of_op()[op] >= 0) continue;
      if (other_side_.shape[op] != dump_side_.shape[row] || dtype_of(other_side_, op) != dtype_of(dump_side_, row))
        continue;
      DiffSite site;
      site.reference.dtype = site.subject.dtype = dtype_of(dump_side_, row);
      site.reference.sizes = site.subject.sizes = sizes_of(dump_side_, row);
      compare_values(dump_side_, row, other_side_, op, {}, site);
      const auto depth = other_side_.trace->ops.max_distance_from_input[op];
      if (site.evidence == Evidence::kFull && site.error <= noise_floor(roundoff, depth)) return op;
    }
    return std::nullopt;
  }

  /// Entries that are named as an Op is: taps, tensors of a file.
  void match_labels() {
    std::map<std::string, std::size_t, std::less<>> by_label;
    for (std::uint32_t op = 0; op < other_side_.size(); ++op)
      by_label.emplace(op_label(*other_side_.trace, OpId{op}), op);
    for (std::size_t i = 0; i < dump_side_.dump->entries.size(); ++i) {
      const auto row = dump_side_.dump->inputs.size() + i;
      const auto found = by_label.find(dump_side_.dump->entries[i].name);
      if (found == by_label.end()) continue;
      const auto r = dump_first_ ? row : found->second;
      const auto s = dump_first_ ? found->second : row;
      if (pairs_.result.subject_of[r] < 0 && pairs_.result.reference_of[s] < 0) pairs_.add(r, s, MatchBasis::kSiteKey);
    }
  }

  Pairs pairs_;
  const bool dump_first_;
  const Side& dump_side_;  ///< the reference where both sides are dumps
  const Side& other_side_;
  ValueDigests dump_digests_;
  ValueDigests other_digests_;
  CallMatcher matcher_;
  std::vector<CallValues> ours_;
  std::vector<CallValues> theirs_;
  std::vector<MatchBasis> basis_;  ///< by item of ours_
  std::vector<Standing> standing_;
  std::vector<std::int32_t> our_partner_;
  std::vector<std::int32_t> their_partner_;
};

}  // namespace

Alignment align_with_dump(const Side& reference, const Side& subject, const AlignOptions& options) {
  return DumpAligner(reference, subject, options.values).run();
}

}  // namespace tl

#include "diff/align.h"

#include <algorithm>

#include "diff/align_parts.h"
#include "diff/arguments.h"
#include "diff/module_votes.h"
#include "diff/sequence.h"

namespace tl {
namespace {

using Keyed = std::vector<std::pair<std::uint64_t, std::uint32_t>>;

/// Rows of operations without a partner, by key, in order within a key. Key 0 is left out.
template <typename Key>
Keyed keyed_rows(const Side& side, const std::vector<std::int32_t>& partner, const Key& key) {
  Keyed rows;
  for (std::uint32_t row = 0; row < side.size(); ++row) {
    if (side.kind[row] != OpKind::kOperation || partner[row] >= 0) continue;
    if (const auto value = key(side, row)) rows.emplace_back(value, row);
  }
  std::ranges::sort(rows);
  return rows;
}

std::size_t end_of_key(const Keyed& rows, std::size_t begin) {
  auto end = begin;
  while (end < rows.size() && rows[end].first == rows[begin].first) ++end;
  return end;
}

/// The pairs of a moment that are in order on both sides.
class Order {
 public:
  explicit Order(std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs) : pairs_(std::move(pairs)) {}

  /// A pair of these rows would stand between the same neighbours.
  bool allows(std::uint32_t reference_row, std::uint32_t subject_row) const {
    const auto next =
        std::ranges::lower_bound(pairs_, reference_row, {}, &std::pair<std::uint32_t, std::uint32_t>::first);
    return (next == pairs_.begin() || (next - 1)->second < subject_row) &&
           (next == pairs_.end() || subject_row < next->second);
  }

 private:
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs_;
};

class TraceAligner {
 public:
  TraceAligner(const Side& reference, const Side& subject, const AlignOptions& options)
      : reference_(reference), subject_(subject), options_(options), pairs_(reference_, subject_) {}

  Alignment run() {
    match_roles(pairs_);
    pairs_.result.names_trusted = names_are_trusted(*reference_.trace, *subject_.trace, options_.rename);
    const auto by_name = options_.rename ? MatchBasis::kMap : MatchBasis::kSiteKey;
    if (pairs_.result.names_trusted) match_keys(by_name, true);
    match_weights(true);
    match_weights(false);
    if (pairs_.unmatched()) follow_modules();
    for (const auto demand : {Demand::kArguments, Demand::kPlace, Demand::kType}) {
      if (pairs_.unmatched()) fill_gaps(demand);
    }
    if (pairs_.unmatched()) match_module_outputs(pairs_);
    if (pairs_.unmatched() && pairs_.result.names_trusted) match_keys(by_name, false);
    if (pairs_.unmatched() && options_.values) match_content(pairs_);
    if (pairs_.unmatched()) {
      drop_loose_views(pairs_);
      match_read_values(pairs_);
    }
    match_folded_norms(pairs_);
    note_renamed();
    mark_reordered();
    return std::move(pairs_.result);
  }

 private:
  /// Rows of the same type in the same module call, by ordinal, where both calls have as many. With `shapes`, only
  /// where all of a group have equal shapes: else something was put in or taken out. Without, only in order.
  void match_keys(MatchBasis basis, bool shapes) {
    const Order order(shapes ? std::vector<std::pair<std::uint32_t, std::uint32_t>>() : pairs_.in_order());
    match_groups([](const Side& side, std::uint32_t row) { return hash_mix(side.place[row], side.type[row]) | 1; },
                 basis, shapes, SIZE_MAX, shapes ? nullptr : &order);
  }

  /// Rows that read parameters of equal content: of the same type, then of any type where only one row has them.
  void match_weights(bool same_type) {
    if (same_type) {
      match_groups(
          [](const Side& side, std::uint32_t row) {
            if (side.weights[row] == 0) return std::uint64_t{0};
            const bool is_view = (side.trace->ops.flags[row] & kOpView) != 0;  // which part it shows is in its shape
            return hash_mix(hash_mix(side.weights[row], side.type[row]), is_view ? side.shape[row] : 0) | 1;
          },
          MatchBasis::kParameters, false);
    } else {
      match_groups([](const Side& side, std::uint32_t row) { return side.weights[row]; }, MatchBasis::kParameters, true,
                   1);
    }
  }

  template <typename Key>
  void match_groups(const Key& key, MatchBasis basis, bool shapes, std::size_t most = SIZE_MAX,
                    const Order* order = nullptr) {
    const auto in_reference = keyed_rows(reference_, pairs_.result.subject_of, key);
    const auto in_subject = keyed_rows(subject_, pairs_.result.reference_of, key);
    for (std::size_t r = 0, s = 0; r < in_reference.size() && s < in_subject.size();) {
      const auto r_end = end_of_key(in_reference, r);
      const auto s_end = end_of_key(in_subject, s);
      if (in_reference[r].first < in_subject[s].first) {
        r = r_end;
      } else if (in_subject[s].first < in_reference[r].first) {
        s = s_end;
      } else {
        const auto count = r_end - r;
        bool good = count == s_end - s && count <= most;
        for (std::size_t k = 0; good && shapes && k < count; ++k) {
          good = reference_.shape[in_reference[r + k].second] == subject_.shape[in_subject[s + k].second];
        }
        for (std::size_t k = 0; good && k < count; ++k) {
          const auto ours = in_reference[r + k].second;
          const auto theirs = in_subject[s + k].second;
          if (!order || order->allows(ours, theirs)) pairs_.add(ours, theirs, basis);
        }
        r = r_end, s = s_end;
      }
    }
  }

  /// Keys once more, with the modules renamed that the pairs so far correspond by.
  void follow_modules() {
    pairs_.result.renamed = vote_modules(pairs_);
    if (pairs_.result.renamed.empty()) return;
    place_rows(reference_, renamer_of(pairs_.result.renamed, options_.rename));
    match_keys(MatchBasis::kModule, true);
  }

  /// Pairs made by order tell of other names too.
  void note_renamed() {
    auto& result = pairs_.result;
    if (!result.renamed.empty()) return;
    for (std::size_t r = 0; r < reference_.size(); ++r) {
      if (result.subject_of[r] < 0 || result.basis[r] != MatchBasis::kSequence) continue;
      result.renamed = vote_modules(pairs_);
      return;
    }
  }

  /// What a pair between matched neighbours must have in common beside type and shape.
  enum class Demand : std::uint8_t { kType, kPlace, kArguments };

  /// What stands between matched neighbours, in order.
  void fill_gaps(Demand demand) {
    const auto anchors = pairs_.in_order();
    std::uint32_t r = 0;
    std::uint32_t s = 0;
    for (std::size_t next = 0; next <= anchors.size(); ++next) {
      const auto r_end = next < anchors.size() ? anchors[next].first : static_cast<std::uint32_t>(reference_.size());
      const auto s_end = next < anchors.size() ? anchors[next].second : static_cast<std::uint32_t>(subject_.size());
      fill_gap(r, r_end, s, s_end, demand);
      r = r_end + 1;
      s = s_end + 1;
    }
  }

  void fill_gap(std::uint32_t r, std::uint32_t r_end, std::uint32_t s, std::uint32_t s_end, Demand demand) {
    if (r >= r_end || s >= s_end) return;
    std::vector<std::uint32_t> r_rows;
    std::vector<std::uint32_t> s_rows;
    const auto r_tokens = gap_tokens(reference_, pairs_.result.subject_of, r, r_end, demand, r_rows);
    const auto s_tokens = gap_tokens(subject_, pairs_.result.reference_of, s, s_end, demand, s_rows);
    for (const auto& [i, j] : align_sequences(r_tokens, s_tokens)) {
      if (pairs_.consistent(r_rows[i], s_rows[j]) && picks_alike(r_rows[i], s_rows[j])) {
        pairs_.add(r_rows[i], s_rows[j], MatchBasis::kSequence);
      }
    }
  }

  static std::vector<std::uint64_t> gap_tokens(const Side& side, const std::vector<std::int32_t>& partner,
                                               std::uint32_t begin, std::uint32_t end, Demand demand,
                                               std::vector<std::uint32_t>& rows) {
    std::vector<std::uint64_t> tokens;
    for (auto row = begin; row < end; ++row) {
      if (side.kind[row] != OpKind::kOperation || partner[row] >= 0) continue;
      rows.push_back(row);
      auto token = hash_mix(side.type[row], side.shape[row]);
      if (demand != Demand::kType) token = hash_mix(token, side.place[row]);
      if (demand == Demand::kArguments) token = hash_mix(token, argument_hash(*side.trace, row));
      tokens.push_back(token);
    }
    return tokens;
  }

  static std::uint64_t argument_hash(const Trace& trace, std::uint32_t row) {
    std::uint64_t hash = 0;
    for (const auto& argument : arguments_of(trace, OpId{row})) hash = hash_mix(hash, hash_text(argument.text));
    return hash;
  }

  /// Operations that pick elements are told apart by nothing but what they pick.
  bool picks_alike(std::uint32_t r, std::uint32_t s) const {
    const auto type = layer_type(*reference_.trace, OpId{r});
    if (type != "slice" && type != "select" && type != "narrow") return true;
    return argument_differences(*reference_.trace, OpId{r}, *subject_.trace, OpId{s}).empty();
  }

  void mark_reordered() {
    auto& result = pairs_.result;
    result.reordered.assign(reference_.size(), 0);
    for (std::size_t r = 0; r < reference_.size(); ++r) {
      result.reordered[r] = result.subject_of[r] >= 0 && reference_.kind[r] == OpKind::kOperation;
    }
    for (const auto& [r, s] : pairs_.in_order()) result.reordered[r] = 0;
  }

  Side reference_;
  const Side& subject_;
  const AlignOptions& options_;
  Pairs pairs_;
};

}  // namespace

Alignment align(const Side& reference, const Side& subject, const AlignOptions& options) {
  if (reference.trace && subject.trace) return TraceAligner(reference, subject, options).run();
  return align_with_dump(reference, subject, options);
}

}  // namespace tl

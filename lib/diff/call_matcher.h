#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "diff/align_parts.h"
#include "diff/call_values.h"
#include "diff/value_digests.h"

namespace tl {

/// Tells which of the values that a call returned on one side is which of the other's, where one side is a Dump at
/// least. A Trace does not say what its calls returned, only which values leave them.
class CallMatcher {
 public:
  using RowPair = std::pair<std::uint32_t, std::uint32_t>;
  struct Match {
    std::vector<RowPair> pairs;  ///< rows of the first and of the second side
    std::vector<std::uint32_t>
        unread;  ///< rows of the first side: nothing that leaves the other's call is left for them
  };

  /// `first` is a Dump; `pairs` holds the pairs of rows that were found before. All must outlive it.
  CallMatcher(const Side& first, const Side& second, ValueDigests& first_digests, ValueDigests& second_digests,
              const Pairs& pairs);

  /// One value on both sides is one pair. Else values of equal shape are paired: what two dumps have under one path;
  /// equal values, also inside of the call; a value that another entry has too, with the operation of that entry; what
  /// is known to be returned first; the nearest values, where they are clearly nearest; outputs of one operation in
  /// their order; what is alone of its shape. What is left has no partner.
  Match match(const CallValues& first, const CallValues& second);

  /// Rows of the Dump whose value is that of `row`, bit by bit, with the same sizes.
  std::vector<std::uint32_t> repetitions(std::uint32_t row);

 private:
  using Rows = std::vector<std::uint32_t>;

  void take(std::uint32_t a, std::uint32_t b);
  bool alike(std::uint32_t a, std::uint32_t b) const;
  bool may_be(std::uint32_t a, std::uint32_t b);
  std::int32_t entry_of(std::uint32_t b) const;
  std::int32_t partner_of(std::uint32_t a) const;
  void match_paths();
  void match_equal();
  void drop_repeated();
  void match_inside(std::int32_t call);
  void match_repeated();
  bool match_first(const CallValues& first, const CallValues& second);
  void drop_dead();
  void match_by_shape();
  void match_nearest(const Rows& ours, const Rows& theirs);
  void match_slots(const Rows& ours, const Rows& theirs);
  double distance(std::uint32_t a, std::uint32_t b) const;

  const Side& a_;
  const Side& b_;
  ValueDigests& a_digests_;
  ValueDigests& b_digests_;
  const Pairs& pairs_;
  Rows open_a_;  ///< of the call at hand, without a partner yet
  Rows open_b_;
  std::vector<RowPair> found_;
  /// Rows of the Dump by sizes, and of these the digests that were asked for.
  std::map<std::uint64_t, Rows> rows_of_shape_;
  std::map<std::uint64_t, std::map<std::string, Rows>> repeated_;
};

}  // namespace tl

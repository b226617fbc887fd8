#include "diff/call_matcher.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>

#include "diff/values.h"

namespace tl {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::size_t row_of(std::int64_t value) { return static_cast<std::size_t>(value); }

const DumpEntry& entry_of_row(const Side& side, std::uint32_t row) {
  return side.dump->entries[row - side.dump->inputs.size()];
}

bool holds(const std::vector<std::uint32_t>& rows, std::uint32_t row) {
  return std::ranges::find(rows, row) != rows.end();
}

/// All are outputs of one call of an operator.
bool are_slots(const Side& side, const std::vector<std::uint32_t>& rows) {
  const auto& ops = side.trace->ops;
  const auto first = [&](std::uint32_t row) { return row - ops.slot[row]; };
  return std::ranges::all_of(rows,
                             [&](std::uint32_t row) { return ops.num_slots[row] > 1 && first(row) == first(rows[0]); });
}

/// Nothing that counts reads an output of the operation.
bool is_dead(const Side& side, std::uint32_t row) {
  const auto& ops = side.trace->ops;
  const auto first = row - ops.slot[row];
  const auto end = std::min<std::size_t>(first + std::max<std::uint32_t>(1, ops.num_slots[row]), side.size());
  for (std::size_t output = first; output < end; ++output) {
    if (side.matters[output]) return false;
  }
  return true;
}

}  // namespace

CallMatcher::CallMatcher(const Side& first, const Side& second, ValueDigests& first_digests,
                         ValueDigests& second_digests, const Pairs& pairs)
    : a_(first), b_(second), a_digests_(first_digests), b_digests_(second_digests), pairs_(pairs) {
  for (std::uint32_t row = 0; row < a_.size(); ++row) {
    if (a_.kind[row] != OpKind::kOutput) rows_of_shape_[a_.shape[row]].push_back(row);
  }
}

CallMatcher::Match CallMatcher::match(const CallValues& first, const CallValues& second) {
  open_a_ = first.rows;
  open_b_ = second.rows;
  found_.clear();
  const bool is_one = first.rows.size() == 1;
  if (is_one && (second.rows.size() == 1 || second.first_is_known)) return {{{open_a_[0], open_b_[0]}}, {}};
  if (b_.dump) match_paths();
  match_equal();
  if (b_.trace && !open_a_.empty()) {
    drop_repeated();
    match_inside(second.call);
    match_repeated();
    if (second.first_is_known) match_first(first, second);
    drop_dead();
  }
  const bool as_many = open_a_.size() == open_b_.size();
  match_by_shape();
  if (as_many && second.first_is_read && match_first(first, second)) match_by_shape();
  if (is_one && !open_a_.empty() && !open_b_.empty()) {
    const auto likely = holds(open_b_, second.rows[0]) ? second.rows[0] : open_b_[0];
    if (alike(open_a_[0], likely) || open_b_.size() == 1) take(open_a_[0], likely);
  }
  Match match{std::move(found_), {}};
  if (!is_one && open_b_.empty()) match.unread = open_a_;
  return match;
}

std::vector<std::uint32_t> CallMatcher::repetitions(std::uint32_t row) {
  const auto& digest = a_digests_.of(row);
  if (digest.empty()) return {};
  auto& by_digest = repeated_[a_.shape[row]];
  if (by_digest.empty()) {
    for (const auto other : rows_of_shape_[a_.shape[row]]) by_digest[a_digests_.of(other)].push_back(other);
  }
  auto rows = by_digest[digest];
  std::erase(rows, row);
  return rows;
}

void CallMatcher::take(std::uint32_t a, std::uint32_t b) {
  found_.emplace_back(a, b);
  std::erase(open_a_, a);
  std::erase(open_b_, b);
}

bool CallMatcher::alike(std::uint32_t a, std::uint32_t b) const { return a_.shape[a] == b_.shape[b]; }

std::int32_t CallMatcher::entry_of(std::uint32_t b) const {
  return &a_ == &pairs_.reference ? pairs_.result.reference_of[b] : pairs_.result.subject_of[b];
}

std::int32_t CallMatcher::partner_of(std::uint32_t a) const {
  return &a_ == &pairs_.reference ? pairs_.result.subject_of[a] : pairs_.result.reference_of[a];
}

/// False where the operation is that of an inner call, which returned something else than the entry.
bool CallMatcher::may_be(std::uint32_t a, std::uint32_t b) {
  const auto inner = entry_of(b);
  if (inner < 0 || row_of(inner) >= a) return true;
  const auto& other = a_digests_.of(row_of(inner));
  return other.empty() || other == a_digests_.of(a);
}

void CallMatcher::match_paths() {
  for (const auto a : Rows(open_a_)) {
    const auto& path = entry_of_row(a_, a).path;
    const auto found = std::ranges::find_if(open_b_, [&](auto b) { return entry_of_row(b_, b).path == path; });
    if (found != open_b_.end()) take(a, *found);
  }
}

void CallMatcher::match_equal() {
  for (const auto a : Rows(open_a_)) {
    const auto found = std::ranges::find_if(open_b_, [&](std::uint32_t b) {
      if (!alike(a, b) || dtype_of(a_, a) != dtype_of(b_, b)) return false;
      return !a_digests_.of(a).empty() && a_digests_.of(a) == b_digests_.of(b);
    });
    if (found != open_b_.end()) take(a, *found);
  }
}

/// One value that was returned twice is looked for once.
void CallMatcher::drop_repeated() {
  std::set<std::string_view> seen;
  std::erase_if(open_a_, [&](std::uint32_t a) {
    const auto& digest = a_digests_.telling(a);
    return !digest.empty() && !seen.insert(digest).second;
  });
}

/// Equal values of operations that only the call itself reads: what it returned besides is not read outside.
void CallMatcher::match_inside(std::int32_t call) {
  if (call <= 0 || open_a_.empty()) return;
  const auto& calls = b_.trace->module_calls;
  std::map<std::string, std::uint32_t> sought;
  for (const auto a : open_a_) {
    if (!a_digests_.telling(a).empty()) sought.emplace(a_digests_.telling(a), a);
  }
  for (auto op = row_of(calls.first_op[row_of(call)]); op < row_of(calls.end_op[row_of(call)]); ++op) {
    const auto b = static_cast<std::uint32_t>(op);
    const auto may_fit = [&](std::uint32_t a) { return alike(a, b) && dtype_of(a_, a) == dtype_of(b_, b); };
    if (b_.kind[op] != OpKind::kOperation || std::ranges::none_of(open_a_, may_fit)) continue;
    const auto found = sought.find(b_digests_.telling(b));
    if (found == sought.end() || !may_fit(found->second)) continue;
    take(found->second, b);
    sought.erase(found);
  }
}

/// A value that an inner call returned too is the operation of that one, however much the two sides differ.
void CallMatcher::match_repeated() {
  for (const auto a : Rows(open_a_)) {
    if (a_digests_.telling(a).empty()) continue;
    for (const auto other : repetitions(a)) {
      const auto partner = partner_of(other);
      if (partner < 0 || !holds(open_b_, static_cast<std::uint32_t>(partner))) continue;
      if (!alike(a, static_cast<std::uint32_t>(partner))) continue;
      take(a, static_cast<std::uint32_t>(partner));
      break;
    }
  }
}

bool CallMatcher::match_first(const CallValues& first, const CallValues& second) {
  const auto [a, b] = RowPair(first.rows[0], second.rows[0]);
  const bool both = holds(open_a_, a) && holds(open_b_, b) && alike(a, b);
  if (both) take(a, b);
  return both;
}

/// What nothing reads need not be anything that was returned, unless all is so.
void CallMatcher::drop_dead() {
  const auto dead = [&](std::uint32_t b) { return is_dead(b_, b); };
  if (!std::ranges::all_of(open_b_, dead) || !found_.empty()) std::erase_if(open_b_, dead);
}

void CallMatcher::match_by_shape() {
  std::map<std::uint64_t, std::pair<Rows, Rows>> groups;
  for (const auto a : open_a_) groups[a_.shape[a]].first.push_back(a);
  for (const auto b : open_b_) groups[b_.shape[b]].second.push_back(b);
  const auto left = [](Rows& rows, const Rows& open) {
    std::erase_if(rows, [&](std::uint32_t row) { return !holds(open, row); });
  };
  for (auto& [shape, group] : groups) {
    auto& [ours, theirs] = group;
    if (ours.empty() || theirs.empty()) continue;
    match_nearest(ours, theirs);
    left(ours, open_a_);
    left(theirs, open_b_);
    if (b_.trace) match_slots(ours, theirs);
    left(ours, open_a_);
    left(theirs, open_b_);
    if (ours.size() == 1 && theirs.size() == 1 && may_be(ours[0], theirs[0])) take(ours[0], theirs[0]);
  }
}

/// Pairs that are several times nearer to each other than either is to any other value.
void CallMatcher::match_nearest(const Rows& ours, const Rows& theirs) {
  constexpr std::size_t kMostPairs = 64;
  constexpr double kClear = 4;
  constexpr double kNear = 0.5;
  if (ours.size() + theirs.size() < 3 || ours.size() * theirs.size() > kMostPairs) return;
  if (!a_digests_.reads_values()) return;
  std::vector<std::vector<double>> distances(ours.size(), std::vector<double>(theirs.size(), kInfinite));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    for (std::size_t j = 0; j < theirs.size(); ++j) {
      if (may_be(ours[i], theirs[j])) distances[i][j] = distance(ours[i], theirs[j]);
    }
  }
  for (std::size_t i = 0; i < ours.size(); ++i) {
    for (std::size_t j = 0; j < theirs.size(); ++j) {
      const auto near = distances[i][j];
      bool is_clear = near < kNear;
      for (std::size_t k = 0; k < theirs.size(); ++k)
        is_clear = is_clear && (k == j || near * kClear < distances[i][k]);
      for (std::size_t k = 0; k < ours.size(); ++k) is_clear = is_clear && (k == i || near * kClear < distances[k][j]);
      if (is_clear) take(ours[i], theirs[j]);
    }
  }
}

void CallMatcher::match_slots(const Rows& ours, const Rows& theirs) {
  if (ours.size() != theirs.size() || theirs.empty() || !are_slots(b_, theirs)) return;
  auto in_order = theirs;
  std::ranges::sort(in_order);
  for (std::size_t k = 0; k < ours.size(); ++k) take(ours[k], in_order[k]);
}

double CallMatcher::distance(std::uint32_t a, std::uint32_t b) const {
  DiffSite site;
  site.reference.dtype = dtype_of(a_, a);
  site.subject.dtype = dtype_of(b_, b);
  site.reference.sizes = sizes_of(a_, a);
  site.subject.sizes = sizes_of(b_, b);
  compare_values(a_, a, b_, b, {}, site);
  return site.evidence == Evidence::kShape ? kInfinite : site.error;
}

}  // namespace tl

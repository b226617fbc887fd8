#include "diff/changes.h"

#include <algorithm>
#include <map>

namespace tl {
namespace {

std::size_t row_of(std::int64_t value) { return static_cast<std::size_t>(value); }

using Rows = std::vector<std::uint32_t>;

/// Unmatched operations, by the first matched row that reads them through others of them; -1 where none does.
std::map<std::int32_t, Rows> unmatched_by_reader(const Side& side, const std::vector<std::int32_t>& partner) {
  const auto& trace = *side.trace;
  std::vector<std::int32_t> reader(side.size(), -1);
  for (std::size_t op = 0; op < side.size(); ++op) {  // first readers in order; through unmatched ones from the back
    if (partner[op] < 0) continue;
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
    for (auto edge = begin; edge < end; ++edge) {
      auto& slot = reader[row_of(trace.edges.parent[edge])];
      if (slot < 0) slot = static_cast<std::int32_t>(op);
    }
  }
  for (auto op = side.size(); op-- > 0;) {
    if (partner[op] >= 0 || reader[op] < 0) continue;
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
    for (auto edge = begin; edge < end; ++edge) {
      auto& slot = reader[row_of(trace.edges.parent[edge])];
      if (slot < 0 || slot > reader[op]) slot = reader[op];
    }
  }
  std::map<std::int32_t, Rows> groups;
  for (std::uint32_t op = 0; op < side.size(); ++op) {
    if (partner[op] < 0 && side.kind[op] == OpKind::kOperation) groups[reader[op]].push_back(op);
  }
  return groups;
}

bool all_quantisers(const Side& side, const Rows& rows) {
  return !rows.empty() && std::ranges::all_of(rows, [&](std::uint32_t row) { return is_quantiser(*side.trace, row); });
}

class ChangeFinder {
 public:
  ChangeFinder(const Side& reference, const Side& subject, const Alignment& alignment,
               const std::vector<std::int64_t>& site_of_subject)
      : reference_(reference), subject_(subject), alignment_(alignment), site_of_subject_(site_of_subject) {}

  std::vector<DiffChange> run() {
    auto ours = unmatched_by_reader(reference_, alignment_.subject_of);
    auto theirs = unmatched_by_reader(subject_, alignment_.reference_of);
    for (const auto& [reader, rows] : theirs) {
      Rows removed;
      if (reader >= 0) {
        const auto partner = alignment_.reference_of[row_of(reader)];
        if (const auto found = ours.find(partner); found != ours.end()) {
          removed = std::move(found->second);
          ours.erase(found);
        }
      }
      add(reader < 0 ? -1 : alignment_.reference_of[row_of(reader)], removed, reader, rows);
    }
    for (const auto& [reader, rows] : ours) {
      add(reader, rows, reader < 0 ? -1 : alignment_.subject_of[row_of(reader)], {});
    }
    add_reordered();
    add_exchanged();
    std::ranges::stable_sort(changes_, {}, [](const DiffChange& change) {
      return change.subject.empty() ? change.site : change.subject[0].row;
    });
    return std::move(changes_);
  }

 private:
  /// One group: what stands before the pair (reference_row, subject_row) on each side. Where the pair itself is of
  /// different types, it belongs to the group.
  void add(std::int32_t reference_row, Rows removed, std::int32_t subject_row, Rows inserted) {
    const bool paired =
        reference_row >= 0 && subject_row >= 0 && reference_.kind[row_of(reference_row)] == OpKind::kOperation;
    const bool quantised = (all_quantisers(reference_, removed) && inserted.empty()) ||
                           (all_quantisers(subject_, inserted) && removed.empty());
    if (paired && reference_.type[row_of(reference_row)] != subject_.type[row_of(subject_row)]) {
      removed.push_back(static_cast<std::uint32_t>(reference_row));
      inserted.push_back(static_cast<std::uint32_t>(subject_row));
    }
    DiffChange change;
    for (const auto row : removed) change.reference.push_back(site_ref(reference_, row));
    for (const auto row : inserted) change.subject.push_back(site_ref(subject_, row));
    change.kind = quantised                                    ? ChangeKind::kQuantise
                  : removed.empty()                            ? ChangeKind::kInserted
                  : inserted.empty()                           ? ChangeKind::kRemoved
                  : removed.size() == 1 && inserted.size() > 1 ? ChangeKind::kSplit
                  : inserted.size() == 1 && removed.size() > 1 ? ChangeKind::kFused
                                                               : ChangeKind::kRewritten;
    if (subject_row >= 0) change.site = site_of_subject_[row_of(subject_row)];
    changes_.push_back(std::move(change));
  }

  void add_reordered() {
    for (std::size_t r = 0; r < reference_.size(); ++r) {
      if (!alignment_.reordered[r]) continue;
      const auto s = row_of(alignment_.subject_of[r]);
      changes_.push_back(
          {ChangeKind::kReordered, {site_ref(reference_, r)}, {site_ref(subject_, s)}, site_of_subject_[s]});
    }
  }

  /// Pairs that read each other's weights.
  void add_exchanged() {
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> changed;  // contents (reference, subject): row
    for (std::size_t r = 0; r < reference_.size(); ++r) {
      const auto s = alignment_.subject_of[r];
      if (s < 0 || reference_.weights[r] == 0 || subject_.weights[row_of(s)] == 0) continue;
      if (reference_.weights[r] == subject_.weights[row_of(s)]) continue;
      const auto other = changed.find({subject_.weights[row_of(s)], reference_.weights[r]});
      if (other == changed.end()) {
        changed.emplace(std::pair(reference_.weights[r], subject_.weights[row_of(s)]), r);
        continue;
      }
      const auto first = row_of(alignment_.subject_of[other->second]);
      changes_.push_back({ChangeKind::kExchanged,
                          {site_ref(reference_, other->second), site_ref(reference_, r)},
                          {site_ref(subject_, first), site_ref(subject_, row_of(s))},
                          site_of_subject_[first]});
    }
  }

  const Side& reference_;
  const Side& subject_;
  const Alignment& alignment_;
  const std::vector<std::int64_t>& site_of_subject_;
  std::vector<DiffChange> changes_;
};

}  // namespace

std::vector<DiffChange> find_changes(const Side& reference, const Side& subject, const Alignment& alignment,
                                     const std::vector<std::int64_t>& site_of_subject) {
  if (reference.trace && subject.trace) {
    return ChangeFinder(reference, subject, alignment, site_of_subject).run();
  }
  std::vector<DiffChange> changes;
  const auto is_unread = [&](std::size_t row) { return row < alignment.unread.size() && alignment.unread[row]; };
  for (std::size_t r = 0; reference.dump && r < reference.size(); ++r) {
    if (alignment.subject_of[r] < 0 && !is_unread(r))
      changes.push_back({ChangeKind::kRemoved, {site_ref(reference, r)}, {}, -1});
  }
  for (std::size_t s = 0; subject.dump && s < subject.size(); ++s) {
    if (alignment.reference_of[s] < 0 && !is_unread(s))
      changes.push_back({ChangeKind::kInserted, {}, {site_ref(subject, s)}, -1});
  }
  return changes;
}

bool is_material(const DiffChange& change, const Side& reference, const Side& subject) {
  if (change.kind == ChangeKind::kReordered) return false;
  const auto neutral = [](const Side& side, const SiteRef& ref) {
    return side.trace && (!side.matters[row_of(ref.row)] || is_neutral(*side.trace, row_of(ref.row)));
  };
  return !std::ranges::all_of(change.reference, [&](const SiteRef& ref) { return neutral(reference, ref); }) ||
         !std::ranges::all_of(change.subject, [&](const SiteRef& ref) { return neutral(subject, ref); });
}

}  // namespace tl

#include "diff/module_votes.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace tl {
namespace {

std::size_t row_of(std::int32_t value) { return static_cast<std::size_t>(value); }

constexpr std::uint32_t kSeveral = ~std::uint32_t{0};

/// Parameters by digest; kSeveral for a digest that several have.
std::unordered_map<std::string_view, std::uint32_t> params_by_digest(const Trace& trace) {
  std::unordered_map<std::string_view, std::uint32_t> params;
  for (std::uint32_t row = 0; row < trace.params.digest.size(); ++row) {
    if (trace.params.digest[row] < 0) continue;
    const auto [found, fresh] = params.emplace(trace.strings[trace.params.digest[row]], row);
    if (!fresh) found->second = kSeveral;
  }
  return params;
}

using Votes = std::map<std::pair<std::int32_t, std::int32_t>, std::size_t>;

/// For each row on one side the row on the other with most votes, the first of equals.
std::map<std::int32_t, std::int32_t> winners(const Votes& votes, bool of_subject) {
  std::map<std::int32_t, std::pair<std::size_t, std::int32_t>> best;
  for (const auto& [pair, count] : votes) {
    const auto mine = of_subject ? pair.second : pair.first;
    const auto other = of_subject ? pair.first : pair.second;
    auto& entry = best[mine];
    if (count > entry.first) entry = {count, other};
  }
  std::map<std::int32_t, std::int32_t> result;
  for (const auto& [mine, entry] : best) result[mine] = entry.second;
  return result;
}

Votes count_votes(const Pairs& pairs) {
  const auto& ours = *pairs.reference.trace;
  const auto& theirs = *pairs.subject.trace;
  Votes votes;
  for (std::size_t r = 0; r < pairs.result.subject_of.size(); ++r) {
    const auto s = pairs.result.subject_of[r];
    if (s < 0 || pairs.reference.kind[r] != OpKind::kOperation) continue;
    auto mine = ours.module_calls.module[row_of(ours.ops.module_call[r])];
    auto other = theirs.module_calls.module[row_of(theirs.ops.module_call[row_of(s)])];
    while (mine > 0 && other > 0) {
      ++votes[{mine, other}];
      mine = ours.modules.parent[row_of(mine)];
      other = theirs.modules.parent[row_of(other)];
    }
  }
  return votes;
}

}  // namespace

bool names_are_trusted(const Trace& reference, const Trace& subject, const Renamer& rename) {
  const auto by_digest = params_by_digest(subject);
  const auto own = params_by_digest(reference);
  std::unordered_map<std::string_view, std::uint32_t> by_name;
  for (std::uint32_t row = 0; row < subject.params.address.size(); ++row) {
    by_name.emplace(subject.strings[subject.params.address[row]], row);
  }
  std::size_t same = 0;
  std::size_t moved = 0;
  for (const auto& [digest, row] : own) {
    const auto found = by_digest.find(digest);
    if (row == kSeveral || found == by_digest.end() || found->second == kSeveral) continue;
    const auto address = reference.strings[reference.params.address[row]];
    const auto named = by_name.find(rename ? rename(address) : std::string(address));
    if (named == by_name.end()) continue;  // under a new name: no name that could mislead
    ++(named->second == found->second ? same : moved);
  }
  return moved <= same;
}

RenamedModules vote_modules(const Pairs& pairs) {
  const auto votes = count_votes(pairs);
  const auto of_reference = winners(votes, false);
  const auto of_subject = winners(votes, true);
  const auto& ours = *pairs.reference.trace;
  const auto& theirs = *pairs.subject.trace;
  std::map<std::int32_t, std::string> names;  // by row of the reference: in order, so parents first
  RenamedModules result;
  for (const auto& [mine, other] : of_reference) {
    if (of_subject.at(other) != mine) continue;
    const std::string address(ours.strings[ours.modules.address[row_of(mine)]]);
    const std::string theirs_address(theirs.strings[theirs.modules.address[row_of(other)]]);
    names[mine] = theirs_address;
    const auto parent = ours.modules.parent[row_of(mine)];
    auto expected = address;
    if (const auto above = names.find(parent); above != names.end()) {
      const auto parent_length = ours.strings[ours.modules.address[row_of(parent)]].size();
      expected = above->second + address.substr(std::min(parent_length, address.size()));
    }
    if (expected != theirs_address) result.emplace_back(address, theirs_address);
  }
  std::ranges::sort(result);
  return result;
}

Renamer renamer_of(const RenamedModules& renamed, Renamer base) {
  std::map<std::string, std::string, std::less<>> rules(renamed.begin(), renamed.end());
  return [rules = std::move(rules), base = std::move(base)](std::string_view address) {
    auto length = address.size();
    while (length != std::string_view::npos && length > 0) {
      const auto found = rules.find(address.substr(0, length));
      if (found != rules.end()) return found->second + std::string(address.substr(length));
      length = address.rfind('.', length - 1);
    }
    return base ? base(address) : std::string(address);
  };
}

}  // namespace tl

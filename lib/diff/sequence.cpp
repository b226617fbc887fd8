#include "diff/sequence.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

namespace tl {
namespace {

constexpr std::size_t kMaxCells = std::size_t{1} << 22;
constexpr std::uint32_t kWindow = 64;

using Tokens = std::span<const std::uint64_t>;
using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

struct Range {
  std::uint32_t a_begin, a_end, b_begin, b_end;
  std::size_t cells() const { return std::size_t{a_end - a_begin} * (b_end - b_begin); }
  bool empty() const { return a_begin == a_end || b_begin == b_end; }
};

/// The textbook table, from the back, so that the walk goes forward and takes the earliest pairs.
void align_by_table(Tokens a, Tokens b, const Range& range, Pairs& pairs) {
  const std::size_t rows = range.a_end - range.a_begin;
  const std::size_t columns = range.b_end - range.b_begin;
  std::vector<std::uint32_t> length((rows + 1) * (columns + 1), 0);
  const auto at = [&](std::size_t i, std::size_t j) -> std::uint32_t& { return length[i * (columns + 1) + j]; };
  for (std::size_t i = rows; i-- > 0;) {
    for (std::size_t j = columns; j-- > 0;) {
      const bool equal = a[range.a_begin + i] == b[range.b_begin + j];
      at(i, j) = equal ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
    }
  }
  for (std::size_t i = 0, j = 0; i < rows && j < columns;) {
    if (a[range.a_begin + i] == b[range.b_begin + j]) {
      pairs.emplace_back(range.a_begin + static_cast<std::uint32_t>(i), range.b_begin + static_cast<std::uint32_t>(j));
      ++i, ++j;
    } else if (at(i + 1, j) >= at(i, j + 1)) {
      ++i;
    } else {
      ++j;
    }
  }
}

/// Each token of `a` with the next equal one of `b` that is near.
void align_greedily(Tokens a, Tokens b, const Range& range, Pairs& pairs) {
  auto next = range.b_begin;
  for (auto i = range.a_begin; i < range.a_end; ++i) {
    const auto end = std::min(range.b_end, next + kWindow);
    for (auto j = next; j < end; ++j) {
      if (a[i] != b[j]) continue;
      pairs.emplace_back(i, j);
      next = j + 1;
      break;
    }
  }
}

struct Occurrences {
  std::uint32_t in_a = 0, in_b = 0, at_a = 0, at_b = 0;
};

/// Tokens that occur once on both sides, the longest part of them that is in order on both.
Pairs unique_anchors(Tokens a, Tokens b, const Range& range) {
  std::unordered_map<std::uint64_t, Occurrences> seen;
  seen.reserve(range.a_end - range.a_begin);
  for (auto i = range.a_begin; i < range.a_end; ++i) {
    auto& token = seen[a[i]];
    ++token.in_a;
    token.at_a = i;
  }
  for (auto j = range.b_begin; j < range.b_end; ++j) {
    const auto token = seen.find(b[j]);
    if (token == seen.end()) continue;
    ++token->second.in_b;
    token->second.at_b = j;
  }
  Pairs unique;
  for (auto i = range.a_begin; i < range.a_end; ++i) {
    const auto& token = seen[a[i]];
    if (token.in_a == 1 && token.in_b == 1) unique.emplace_back(i, token.at_b);
  }
  std::vector<std::uint32_t> order;
  for (const auto& pair : unique) order.push_back(pair.second);
  Pairs kept;
  for (const auto position : longest_increasing(order)) kept.push_back(unique[position]);
  return kept;
}

}  // namespace

std::vector<std::uint32_t> longest_increasing(std::span<const std::uint32_t> values) {
  constexpr auto kNone = ~std::uint32_t{0};
  std::vector<std::uint32_t> tails;  // tails[k]: position of the least value that ends an increasing run of k + 1
  std::vector<std::uint32_t> before(values.size(), kNone);
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    const auto place =
        std::ranges::lower_bound(tails, values[i], {}, [&](std::uint32_t position) { return values[position]; });
    if (place != tails.begin()) before[i] = *(place - 1);
    if (place == tails.end()) {
      tails.push_back(i);
    } else {
      *place = i;
    }
  }
  std::vector<std::uint32_t> result;
  for (auto at = tails.empty() ? kNone : tails.back(); at != kNone; at = before[at]) result.push_back(at);
  std::ranges::reverse(result);
  return result;
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> align_sequences(std::span<const std::uint64_t> a,
                                                                     std::span<const std::uint64_t> b) {
  Pairs pairs;
  std::vector<Range> todo = {{0, static_cast<std::uint32_t>(a.size()), 0, static_cast<std::uint32_t>(b.size())}};
  while (!todo.empty()) {
    auto range = todo.back();
    todo.pop_back();
    while (!range.empty() && a[range.a_begin] == b[range.b_begin]) pairs.emplace_back(range.a_begin++, range.b_begin++);
    while (!range.empty() && a[range.a_end - 1] == b[range.b_end - 1]) pairs.emplace_back(--range.a_end, --range.b_end);
    if (range.empty()) continue;
    if (range.cells() <= kMaxCells) {
      align_by_table(a, b, range, pairs);
      continue;
    }
    const auto anchors = unique_anchors(a, b, range);
    if (anchors.empty()) {
      align_greedily(a, b, range, pairs);
      continue;
    }
    for (const auto& [i, j] : anchors) {
      pairs.emplace_back(i, j);
      todo.push_back({range.a_begin, i, range.b_begin, j});
      range.a_begin = i + 1;
      range.b_begin = j + 1;
    }
    todo.push_back(range);
  }
  std::ranges::sort(pairs);
  return pairs;
}

}  // namespace tl

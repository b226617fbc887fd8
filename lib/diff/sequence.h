#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tl {

/// Places of equal tokens in two sequences, increasing in both: (index in a, index in b). A longest common subsequence
/// where the parts that no unique token separates are short (at most 4 million cells); in longer ones without a unique
/// token a greedy one. Near-linear for sequences that are alike: common ends and tokens that occur once in both
/// (patience diff) are found first.
std::vector<std::pair<std::uint32_t, std::uint32_t>> align_sequences(std::span<const std::uint64_t> a,
                                                                     std::span<const std::uint64_t> b);

/// Positions of a longest strictly increasing subsequence of distinct numbers, in order. O(n log n).
std::vector<std::uint32_t> longest_increasing(std::span<const std::uint32_t> values);

}  // namespace tl

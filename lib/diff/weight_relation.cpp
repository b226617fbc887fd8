#include "diff/weight_relation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "diff/side.h"
#include "diff/verdict.h"
#include "tensor/compare.h"
#include "tensor/decode.h"

namespace tl {
namespace {

using Sizes = std::vector<std::int64_t>;

std::size_t count_of(std::int64_t value) { return static_cast<std::size_t>(value); }

/// A tensor whose elements lie side by side in row-major order.
struct Packed {
  explicit Packed(const HostTensor& given)
      : tensor(to_contiguous(given)),
        item(item_bytes(tensor.dtype)),
        bytes(tensor.storage.subspan(count_of(tensor.offset) * item, tensor.nbytes())) {}

  HostTensor tensor;
  std::size_t item;
  std::span<const std::byte> bytes;
};

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t hash) {
  std::size_t at = 0;
  for (; at + sizeof hash <= bytes.size(); at += sizeof hash) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    hash = hash_mix(hash, word);
  }
  if (at == bytes.size()) return hash;
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, bytes.size() - at);
  return hash_mix(hash, word);
}

/// Equal for the same elements in any order.
std::uint64_t hash_of_elements(const Packed& packed) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < packed.bytes.size(); at += packed.item) {
    sum += hash_bytes(packed.bytes.subspan(at, packed.item), 1);
  }
  return sum;
}

/// A tensor seen along one axis: `outer` times `size` slices of `inner` bytes.
struct Along {
  Along(const Packed& packed, std::size_t axis) : bytes(packed.bytes), size(count_of(packed.tensor.sizes[axis])) {
    inner = packed.item;
    for (auto k = axis + 1; k < packed.tensor.sizes.size(); ++k) inner *= count_of(packed.tensor.sizes[k]);
    outer = bytes.size() / (size * inner);
  }

  std::span<const std::byte> slice(std::size_t o, std::size_t index, std::size_t length) const {
    return bytes.subspan((o * size + index) * inner, length * inner);
  }

  std::span<const std::byte> bytes;
  std::size_t size;
  std::size_t inner;
  std::size_t outer;
};

/// A hash of everything at each index of the axis.
std::vector<std::uint64_t> index_hashes(const Along& along) {
  std::vector<std::uint64_t> hashes(along.size, 0);
  for (std::size_t o = 0; o < along.outer; ++o) {
    for (std::size_t i = 0; i < along.size; ++i) hashes[i] = hash_bytes(along.slice(o, i, 1), hashes[i]);
  }
  return hashes;
}

std::vector<std::uint64_t> block_hashes(const std::vector<std::uint64_t>& hashes, std::size_t block) {
  std::vector<std::uint64_t> result(hashes.size() / block, 0);
  for (std::size_t i = 0; i < hashes.size(); ++i) result[i / block] = hash_mix(result[i / block], hashes[i]);
  return result;
}

/// For each of `theirs` the place in `ours` of an equal one, each used once, its own place where that will do; nullopt
/// if they are not the same things.
std::optional<Sizes> order_of(const std::vector<std::uint64_t>& ours, const std::vector<std::uint64_t>& theirs) {
  Sizes order(theirs.size(), -1);
  std::unordered_map<std::uint64_t, std::vector<std::int64_t>> open;
  for (std::size_t i = ours.size(); i-- > 0;) {
    if (ours[i] == theirs[i]) {
      order[i] = static_cast<std::int64_t>(i);
    } else {
      open[ours[i]].push_back(static_cast<std::int64_t>(i));
    }
  }
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    if (order[i] >= 0) continue;
    const auto found = open.find(theirs[i]);
    if (found == open.end() || found->second.empty()) return std::nullopt;
    order[i] = found->second.back();
    found->second.pop_back();
  }
  return order;
}

/// The hashes said so; this looks at the elements.
bool is_reordered(const Along& ours, const Along& theirs, const Sizes& order, std::size_t block) {
  for (std::size_t o = 0; o < ours.outer; ++o) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (!std::ranges::equal(ours.slice(o, count_of(order[i]) * block, block), theirs.slice(o, i * block, block))) {
        return false;
      }
    }
  }
  return true;
}

/// Numbers of blocks to try for an axis of `size`: those that were hinted at, then all others that divide it.
std::vector<std::pair<std::size_t, std::string>> block_counts(std::size_t axis, std::size_t size,
                                                              std::span<const BlockHint> hints) {
  std::vector<std::pair<std::size_t, std::string>> counts;
  for (const auto& hint : hints) {
    if (hint.axis != static_cast<std::int64_t>(axis) || hint.count < 2) continue;
    if (size % count_of(hint.count) == 0) counts.emplace_back(count_of(hint.count), hint.name);
  }
  for (std::size_t count = 2; count <= size; ++count) {
    if (size % count == 0) counts.emplace_back(count, "");
  }
  return counts;
}

bool find_reordered(const Packed& reference, const Packed& subject, std::span<const BlockHint> hints,
                    WeightDifference& result) {
  for (std::size_t axis = 0; axis < reference.tensor.sizes.size(); ++axis) {
    const Along ours(reference, axis);
    const Along theirs(subject, axis);
    const auto our_hashes = index_hashes(ours);
    const auto their_hashes = index_hashes(theirs);
    if (!order_of(our_hashes, their_hashes)) continue;
    for (const auto& [count, name] : block_counts(axis, ours.size, hints)) {
      const auto block = ours.size / count;
      const auto order = order_of(block_hashes(our_hashes, block), block_hashes(their_hashes, block));
      if (!order || !is_reordered(ours, theirs, *order, block)) continue;
      result.relation = WeightRelation::kReordered;
      result.axis = static_cast<std::int64_t>(axis);
      result.block = static_cast<std::int64_t>(block);
      result.order = *order;
      result.blocks = name;
      return true;
    }
  }
  return false;
}

bool find_transposed(const Packed& reference, const Packed& subject, WeightDifference& result) {
  constexpr std::size_t kMostAxes = 5;
  const auto rank = reference.tensor.sizes.size();
  if (rank < 2 || rank > kMostAxes || subject.tensor.sizes.size() != rank) return false;
  Sizes axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  while (std::ranges::next_permutation(axes).found) {
    auto view = reference.tensor;
    for (std::size_t i = 0; i < rank; ++i) {
      view.sizes[i] = reference.tensor.sizes[count_of(axes[i])];
      view.strides[i] = reference.tensor.strides[count_of(axes[i])];
    }
    if (view.sizes != subject.tensor.sizes) continue;
    if (!std::ranges::equal(Packed(view).bytes, subject.bytes)) continue;
    result.relation = WeightRelation::kTransposed;
    result.order = axes;
    return true;
  }
  return false;
}

std::vector<double> values_of(const Packed& packed) {
  std::vector<double> values(count_of(packed.tensor.numel()));
  decode_doubles(packed.tensor.dtype, packed.bytes, values);
  return values;
}

/// The nearest bf16, ties to even.
std::uint32_t round_to_bf16(std::uint32_t bits) { return (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000U; }

bool find_rounded(const Packed& reference, const Packed& subject, WeightDifference& result) {
  if (reference.tensor.dtype != DType::kF32) return false;
  for (std::size_t at = 0; at < reference.bytes.size(); at += reference.item) {
    std::uint32_t ours = 0;
    std::uint32_t theirs = 0;
    std::memcpy(&ours, reference.bytes.data() + at, sizeof ours);
    std::memcpy(&theirs, subject.bytes.data() + at, sizeof theirs);
    if (round_to_bf16(ours) != theirs) return false;
  }
  result.relation = WeightRelation::kRounded;
  return true;
}

/// One value, or one factor, throughout.
bool find_scaled(const Packed& reference, const Packed& subject, WeightDifference& result) {
  if (!is_floating(reference.tensor.dtype)) return false;
  const auto ours = values_of(reference);
  const auto theirs = values_of(subject);
  if (std::ranges::all_of(theirs, [&](double value) { return value == theirs[0]; })) {
    result.relation = WeightRelation::kFilled;
    result.factor = theirs[0];
    return true;
  }
  const auto largest = std::ranges::max_element(ours, {}, [](double value) { return std::abs(value); });
  if (!(std::abs(*largest) > 0) || !std::isfinite(*largest)) return false;
  const auto factor = theirs[count_of(largest - ours.begin())] / *largest;
  const double roundoff = reference.tensor.dtype == DType::kF64 ? 0x1p-53 : reference.item == 4 ? 0x1p-24 : 0x1p-8;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const auto expected = factor * ours[i];
    if (!(std::abs(theirs[i] - expected) <= 4 * roundoff * std::abs(expected))) return false;
  }
  if (!std::isfinite(factor) || std::abs(factor - 1) <= 8 * roundoff) return false;
  result.relation = WeightRelation::kScaled;
  result.factor = factor;
  return true;
}

std::string axis_word(std::int64_t axis, std::size_t rank) {
  if (rank == 1) return "elements";
  if (axis == 0) return rank == 2 ? "rows" : "output channels";
  if (axis == 1) return rank == 2 ? "columns" : "input channels";
  return "positions along axis " + std::to_string(axis);
}

std::string list_of(const Sizes& numbers) {
  constexpr std::size_t kMost = 24;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, numbers.size()); ++i) text += (i ? " " : "") + std::to_string(numbers[i]);
  return text + (numbers.size() > kMost ? " …" : "");
}

std::string order_words(const Sizes& order) {
  const auto size = static_cast<std::int64_t>(order.size());
  const auto all = [&](const auto& expected) {
    for (std::int64_t i = 0; i < size; ++i) {
      if (order[count_of(i)] != expected(i)) return false;
    }
    return true;
  };
  if (size > 2 && all([&](std::int64_t i) { return size - 1 - i; })) return "reversed";
  if (size > 4 && all([&](std::int64_t i) { return (i + order[0]) % size; })) {
    return "turned by " + std::to_string(order[0]);
  }
  Sizes moved;
  for (std::int64_t i = 0; i < size; ++i) {
    if (order[count_of(i)] != i) moved.push_back(i);
  }
  if (size > 4 && moved.size() == 2) {
    return std::to_string(moved[0]) + " and " + std::to_string(moved[1]) + " of " + std::to_string(size) + " exchanged";
  }
  return "in another order: " + list_of(order);
}

}  // namespace

WeightDifference relate_weights(const HostTensor& reference, const HostTensor& subject,
                                std::span<const BlockHint> hints) {
  WeightDifference result;
  result.rel_l2 = std::numeric_limits<double>::infinity();
  if (reference.numel() == subject.numel() && reference.sizes == subject.sizes) {
    const auto metrics = compare_tensors(reference, subject);
    if (metrics.nonfinite_disagreements == 0) result.rel_l2 = metrics.rel_l2;
    result.sqnr_db = metrics.sqnr_db;
  }
  if (reference.dtype != subject.dtype) {
    result.relation = WeightRelation::kConverted;
    return result;
  }
  const auto bits = item_bytes(reference.dtype);
  if (bits == 0 || reference.numel() != subject.numel() || reference.numel() == 0) return result;
  const Packed ours(reference);
  const Packed theirs(subject);
  const bool same_shape = reference.sizes == subject.sizes;
  if (hash_of_elements(ours) == hash_of_elements(theirs)) {
    if (same_shape && find_reordered(ours, theirs, hints, result)) return result;
    if (find_transposed(ours, theirs, result)) return result;
    const bool same_order = std::ranges::equal(ours.bytes, theirs.bytes);
    result.relation = same_order && !same_shape ? WeightRelation::kReshaped : WeightRelation::kSameElements;
    return result;
  }
  if (same_shape && !find_rounded(ours, theirs, result)) find_scaled(ours, theirs, result);
  return result;
}

std::string words_of(const WeightDifference& difference, std::size_t rank) {
  const auto sqnr = std::isfinite(difference.sqnr_db) ? ", SQNR " + number_text(difference.sqnr_db) + " dB" : "";
  switch (difference.relation) {
    case WeightRelation::kReordered: {
      auto things = axis_word(difference.axis, rank);
      if (difference.block > 1) {
        things = (difference.blocks.empty() ? "blocks" : difference.blocks) + " of " +
                 std::to_string(difference.block) + " " + things;
      }
      return things + " " + order_words(difference.order);
    }
    case WeightRelation::kTransposed:
      return rank == 2 ? "transposed" : "axes in another order: " + list_of(difference.order);
    case WeightRelation::kReshaped:
      return "the same elements in another shape";
    case WeightRelation::kSameElements:
      return "the same elements in another order";
    case WeightRelation::kScaled:
      return difference.factor == -1 ? "negated" : number_text(difference.factor) + " times the reference";
    case WeightRelation::kRounded:
      return "rounded to bf16" + sqnr;
    case WeightRelation::kFilled:
      return number_text(difference.factor) + " throughout";
    case WeightRelation::kQuantised:
      return "quantised" + sqnr;
    case WeightRelation::kConverted:
      return "of another element type" + sqnr;
    case WeightRelation::kOther:
      break;
  }
  return std::isfinite(difference.rel_l2) ? "values differ, rel L2 " + number_text(difference.rel_l2) + sqnr
                                          : "values differ";
}

}  // namespace tl

// Before: ops.payload and ops.sample count in the store of the engine, where one tensor may stand several times and
// orphans have theirs. After: payloads has one row a distinct tensor (same storage, offset, sizes, strides, element
// type and lazy bits), in order of its first Op, with the encoding that the writer shall use; ops.payload, ops.sample
// and payload_source count in these rows. Encodings: dense whenever the elements are distinct, however they lie; window
// when elements share memory (expanded, overlapping) and the block they lie in is no larger than the value; pairs for
// complex128; empty for uninitialised memory. After remove-orphans, so that islands take nothing with them; near the
// end, because steps before it do not look at values.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "postprocess/chosen_payloads.h"
#include "postprocess/row_map.h"
#include "postprocess/step.h"

namespace tl {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

struct PayloadKey {
  std::uint64_t storage = 0;
  std::int64_t offset = 0;
  std::int32_t sizes = 0;
  std::int32_t strides = 0;
  std::uint32_t kind = 0;  ///< kind, element type, lazy bits, uninitialised

  bool operator==(const PayloadKey&) const = default;
  std::uint64_t hash() const {
    const auto shapes =
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(sizes)) << 32 | static_cast<std::uint32_t>(strides);
    return mix(mix(mix(storage, static_cast<std::uint64_t>(offset)), shapes), kind);
  }
};

std::int64_t saturating_product(std::int64_t left, std::int64_t right) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(left, right, &product) ? kMost : product;
}

std::int64_t numel_of(std::span<const std::int64_t> sizes) {
  std::int64_t numel = 1;
  for (const auto size : sizes) numel = saturating_product(numel, size);
  return numel;
}

/// True if no two elements lie at the same place, as far as strides in order of size tell.
bool has_distinct_elements(const PayloadFacts& facts) {
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, size
  for (std::size_t axis = 0; axis < facts.sizes.size(); ++axis) {
    if (facts.sizes[axis] > 1) axes.emplace_back(facts.strides[axis], facts.sizes[axis]);
  }
  std::ranges::sort(axes);
  std::int64_t reach = 0;  // farthest element of the axes so far
  for (const auto& [stride, size] : axes) {
    if (stride <= reach) return false;
    const auto far = saturating_product(stride, size - 1);
    if (far > kMost - reach) return true;
    reach += far;
  }
  return true;
}

/// Elements of storage from the first to the last that the tensor views.
std::int64_t block_of(const PayloadFacts& facts) {
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < facts.sizes.size(); ++axis) {
    const auto far = saturating_product(facts.strides[axis], facts.sizes[axis] - 1);
    if (far > kMost - 1 - last) return kMost;
    last += far;
  }
  return last + 1;
}

PayloadEncoding encoding_of(const PayloadFacts& facts, bool uninitialised) {
  if (uninitialised) return PayloadEncoding::kEmpty;
  switch (facts.kind) {
    case TensorKind::kQuantised:
      return PayloadEncoding::kQuantised;
    case TensorKind::kSparse:
      return PayloadEncoding::kSparse;
    case TensorKind::kOpaque:
      return PayloadEncoding::kOpaque;
    case TensorKind::kStrided:
      break;
  }
  if (facts.dtype == DType::kC128) return PayloadEncoding::kPairs;
  const auto numel = numel_of(facts.sizes);
  if (numel <= 1 || has_distinct_elements(facts)) return PayloadEncoding::kDense;
  return block_of(facts) <= numel ? PayloadEncoding::kWindow : PayloadEncoding::kDense;
}

class Settling {
 public:
  explicit Settling(Trace& trace) : trace_(trace), source_(*trace.payload_source), row_of_(source_.size(), -1) {}

  void run() {
    auto& payload_of = trace_.ops.payload.rows();
    auto& sample_of = trace_.ops.sample.rows();
    for (std::size_t op = 0; op < trace_.num_ops(); ++op) {
      for (auto* id : {&payload_of[op], &sample_of[op]}) {
        if (*id >= 0) *id = settled(op, *id);
      }
    }
    trace_.payload_source = std::make_shared<ChosenPayloads>(std::move(trace_.payload_source), std::move(kept_));
  }

 private:
  std::int32_t settled(std::size_t op, std::int32_t id) {
    auto& row = row_of_[static_cast<std::size_t>(id)];
    if (row < 0) row = find_row(op, static_cast<std::uint32_t>(id));
    return row;
  }

  std::int32_t shape_code(std::int32_t likely, std::span<const std::int64_t> dims) {
    if (likely >= 0 && std::ranges::equal(trace_.shapes[likely], dims)) return likely;
    return trace_.shapes.intern(dims);
  }

  std::int32_t find_row(std::size_t op, std::uint32_t id) {
    const auto facts = source_.facts(PayloadId{id});
    const bool uninitialised = (trace_.ops.flags[op] & kOpUninitialised) != 0;
    const auto sizes = shape_code(trace_.ops.shape[op], facts.sizes);
    const auto strides = shape_code(last_strides_, facts.strides);
    last_strides_ = strides;
    const auto next = static_cast<std::int32_t>(kept_.size());
    // Without a storage number nothing says that two tensors are one.
    const bool comparable =
        facts.storage != 0 && (facts.kind == TensorKind::kStrided || facts.kind == TensorKind::kQuantised);
    if (comparable) {
      const auto kind = static_cast<std::uint32_t>(facts.kind) << 16 | static_cast<std::uint32_t>(facts.dtype) << 8 |
                        (facts.negative ? 4U : 0U) | (facts.conjugate ? 2U : 0U) | (uninitialised ? 1U : 0U);
      const auto row = rows_.find_or_insert({facts.storage, facts.offset, sizes, strides, kind}, next);
      if (row != next) return row;
    }
    append_row(op, facts, sizes, strides, encoding_of(facts, uninitialised));
    kept_.push_back(id);
    return next;
  }

  void append_row(std::size_t op, const PayloadFacts& facts, std::int32_t sizes, std::int32_t strides,
                  PayloadEncoding encoding) {
    auto& payloads = trace_.payloads;
    payloads.first_op.push_back(static_cast<std::int32_t>(op));
    payloads.encoding.push_back(static_cast<std::uint8_t>(encoding));
    payloads.dtype.push_back(static_cast<std::uint8_t>(facts.dtype));
    payloads.shape.push_back(sizes);
    payloads.strides.push_back(strides);
    payloads.offset.push_back(0);
    payloads.bytes.push_back(
        saturating_product(numel_of(facts.sizes), static_cast<std::int64_t>(item_bytes(facts.dtype))));
    payloads.shard.push_back(-1);
  }

  Trace& trace_;
  const PayloadSource& source_;
  std::vector<std::int32_t> row_of_;  ///< by number in the store
  std::vector<std::uint32_t> kept_;   ///< number in the store, by row
  std::int32_t last_strides_ = -1;
  RowMap<PayloadKey> rows_;
};

}  // namespace

void settle_payloads(StepContext& context) {
  if (context.trace.payload_source != nullptr) Settling(context.trace).run();
}

}  // namespace tl

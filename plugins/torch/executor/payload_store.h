#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "trace/capture.h"

namespace tl::lt {

/// Keeps activations as {storage, dtype, sizes, strides, offset} taken at production. A kept payload is never
/// rewritten: before an instruction writes to a storage, `preserve` moves the payloads of that storage to memory of
/// their own.
class PayloadStore final : public PayloadSource {
 public:
  /// `shapes` is the pool that `shape` arguments refer to; it outlives the store.
  explicit PayloadStore(const ShapePool& shapes) : shapes_(&shapes) {}

  /// Keeps a tensor as it is now. `shape` is its sizes in the pool. Views that alone would pin a storage of over twice
  /// their size are copied; sparse, opaque and wrapper tensors are held whole.
  std::uint32_t keep(const at::Tensor& tensor, std::int32_t shape);

  /// True if payloads share the storage.
  bool holds(const c10::StorageImpl* storage) const { return heads_.find(storage) != heads_.end(); }

  /// Copies the bytes that payloads of `storage` cover and moves these payloads there. Returns the bytes copied.
  std::size_t preserve(c10::StorageImpl* storage);

  /// Moves every payload of `storage` to `other`, which holds the same bytes at the same offsets now.
  void move_payloads(c10::StorageImpl* storage, c10::intrusive_ptr<c10::StorageImpl> other);

  /// Payloads of `storage`, for comparing before and after an operator that announces nothing.
  std::vector<std::uint32_t> payloads_of(const c10::StorageImpl* storage) const;

  std::size_t size() const override { return records_.size(); }
  PayloadFacts facts(PayloadId id) const override;
  TensorRefPtr tensor(PayloadId id) const override;
  /// The payload as a tensor of its own.
  at::Tensor materialise(std::uint32_t index) const;

  /// Takes a copy of the shapes, so that the store outlives the Capture. Nothing may be kept afterwards.
  void settle();

  std::size_t preserved_bytes() const { return preserved_bytes_; }

 private:
  struct Record {
    c10::intrusive_ptr<c10::StorageImpl> storage;  ///< null if held whole
    std::int64_t offset = 0;
    std::int32_t shape = 0;
    std::int32_t strides = 0;   ///< code into strides_, -1 row-major
    std::uint32_t next = kEnd;  ///< next payload of the same storage
    std::uint32_t whole = kEnd;
    DType dtype = DType::kNone;
    bool conjugate = false;
    bool negative = false;
    TensorKind kind = TensorKind::kStrided;
  };
  static constexpr std::uint32_t kEnd = 0xffffffff;

  std::uint32_t keep_whole(const at::Tensor& tensor, std::int32_t shape, TensorKind kind);
  std::int32_t row_major_code(std::int32_t shape) const;
  void link(std::uint32_t index);

  const ShapePool* shapes_;
  ShapePool own_shapes_;  ///< after settle
  mutable ShapePool strides_;
  mutable std::vector<std::int32_t> row_major_;  ///< by shape code: code into strides_, -1 unknown
  std::vector<Record> records_;
  std::vector<at::Tensor> whole_;
  ska::flat_hash_map<const c10::StorageImpl*, std::uint32_t> heads_;
  std::size_t preserved_bytes_ = 0;
};

}  // namespace tl::lt

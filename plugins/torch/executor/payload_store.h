#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
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
  /// Keeps a tensor made for the store, which nobody else writes to: sampled elements, a compact copy.
  std::uint32_t keep_own(const at::Tensor& tensor, std::int32_t shape);

  /// From now on a value that is kept already, unchanged in the same memory, is not kept again: `keep` returns the
  /// payload it has, also after that was released. Facts then number payloads, not memory.
  void unify_values() { unify_ = true; }
  /// Lets go of the bytes; facts stay.
  void release(std::uint32_t index);
  bool released(std::uint32_t index) const { return records_[index].released; }
  /// Memory that payloads hold, each storage once.
  std::size_t held_bytes() const { return held_bytes_; }
  /// Bytes of the elements of a payload, without gaps.
  std::size_t value_bytes(std::uint32_t index) const;

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
    std::uint32_t next = kEnd;  ///< next payload of the same storage, an older one
    std::uint32_t previous = kEnd;
    std::uint32_t whole = kEnd;
    DType dtype = DType::kNone;
    bool conjugate = false;
    bool negative = false;
    bool released = false;
    TensorKind kind = TensorKind::kStrided;
  };
  static constexpr std::uint32_t kEnd = 0xffffffff;

  std::uint32_t keep_whole(const at::Tensor& tensor, std::int32_t shape, TensorKind kind);
  std::int32_t row_major_code(std::int32_t shape) const;
  void link(std::uint32_t index);
  void unlink(std::uint32_t index);
  void forget_values(const c10::StorageImpl* storage);
  void sweep_known_values();

  /// A value in a storage that has not been written since.
  struct ValueKey {
    const c10::StorageImpl* storage;
    std::uint32_t generation;
    std::int64_t offset;
    std::int32_t shape;
    std::int32_t strides;
    std::uint32_t type;  ///< element type and lazy bits
    friend bool operator==(const ValueKey&, const ValueKey&) = default;
  };
  struct ValueKeyHash {
    std::size_t operator()(const ValueKey& key) const;
  };
  struct SeenStorage {
    c10::weak_intrusive_ptr<c10::StorageImpl> address;  ///< keeps the address from being given away
    std::uint32_t generation = 0;                       ///< counts writes
    bool kept = false;                                  ///< a payload has lain in it since the last write
  };
  SeenStorage& seen_storage(const c10::intrusive_ptr<c10::StorageImpl>& storage);
  static ValueKey key_of(const Record& record, std::uint32_t generation);

  const ShapePool* shapes_;
  ShapePool own_shapes_;  ///< after settle
  mutable ShapePool strides_;
  mutable std::vector<std::int32_t> row_major_;  ///< by shape code: code into strides_, -1 unknown
  std::vector<Record> records_;
  std::vector<at::Tensor> whole_;
  ska::flat_hash_map<const c10::StorageImpl*, std::uint32_t> heads_;
  std::size_t preserved_bytes_ = 0;
  std::size_t held_bytes_ = 0;
  bool unify_ = false;
  std::unordered_map<ValueKey, std::uint32_t, ValueKeyHash> known_;
  std::unordered_map<const c10::StorageImpl*, SeenStorage> seen_;
  std::size_t sweep_at_ = 4096;
};

}  // namespace tl::lt

#include "executor/payload_store.h"

#include <ATen/ATen.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "bridge/tensor_bridge.h"

namespace tl::lt {
namespace {

/// First and past-the-last byte that a strided view touches in its storage.
struct Extent {
  std::size_t begin;
  std::size_t end;
};

Extent extent_of(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides, std::int64_t offset,
                 std::size_t item) {
  std::int64_t last = offset;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return {static_cast<std::size_t>(offset) * item, static_cast<std::size_t>(offset) * item};
    last += (sizes[i] - 1) * strides[i];
  }
  return {static_cast<std::size_t>(offset) * item, static_cast<std::size_t>(last + 1) * item};
}

/// Memory of a tensor that is held whole: of its elements, for sparse ones of their values and indices.
std::size_t whole_bytes(const at::Tensor& tensor) {
  if (tensor.is_sparse()) return tensor._indices().nbytes() + tensor._values().nbytes();
  if (at::sparse_csr::is_sparse_compressed(tensor)) return tensor.values().nbytes();
  return static_cast<std::size_t>(tensor.numel()) * tensor.itemsize();
}

c10::intrusive_ptr<c10::StorageImpl> make_storage(std::size_t bytes) {
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, c10::GetCPUAllocator(),
                                               /*resizable=*/true);
}

}  // namespace

std::uint32_t PayloadStore::keep(const at::Tensor& tensor, std::int32_t shape) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  if (tensor.is_quantized()) return keep_whole(tensor, shape, TensorKind::kQuantised);
  if (tensor.layout() != at::kStrided) {
    const bool sparse = tensor.is_sparse() || at::sparse_csr::is_sparse_compressed(tensor);
    return keep_whole(tensor, shape, sparse ? TensorKind::kSparse : TensorKind::kOpaque);
  }
  if (!impl->has_storage() || !tensor.device().is_cpu()) return keep_whole(tensor, shape, TensorKind::kOpaque);

  Record record;
  record.storage = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl->unsafe_storage().unsafeGetStorageImpl());
  record.offset = impl->storage_offset();
  record.shape = shape;
  record.dtype = static_cast<DType>(tensor.scalar_type());
  record.conjugate = tensor.is_conj();
  record.negative = tensor.is_neg();
  record.strides = tensor.is_contiguous() ? -1 : strides_.intern({tensor.strides().data(), tensor.strides().size()});
  const auto index = static_cast<std::uint32_t>(records_.size());
  std::uint32_t* known = nullptr;
  SeenStorage* seen = nullptr;
  if (unify_) {
    seen = &seen_storage(record.storage);
    known = &known_.emplace(key_of(record, seen->generation), kEnd).first->second;
    if (*known != kEnd) return *known;
  }
  records_.push_back(std::move(record));

  auto& kept = records_.back();
  const auto item = tensor.itemsize();
  const auto bytes = static_cast<std::size_t>(tensor.numel()) * item;
  if (kept.storage->nbytes() > 2 * bytes + 4096 && kept.storage.use_count() <= 2 &&
      !(seen != nullptr ? seen->kept : holds(kept.storage.get()))) {
    const auto extent = extent_of({tensor.sizes().data(), tensor.sizes().size()},
                                  {tensor.strides().data(), tensor.strides().size()}, kept.offset, item);
    if (extent.end - extent.begin <= kept.storage->nbytes() / 2) {
      auto copy = make_storage(extent.end - extent.begin);
      std::memcpy(copy->mutable_data(), static_cast<const char*>(kept.storage->data()) + extent.begin,
                  extent.end - extent.begin);
      kept.storage = std::move(copy);
      kept.offset = 0;
      link(index);
      return index;
    }
  }
  if (seen != nullptr) {
    seen->kept = true;
    *known = index;
  }
  link(index);
  return index;
}

std::uint32_t PayloadStore::keep_whole(const at::Tensor& tensor, std::int32_t shape, TensorKind kind) {
  // Sparse and quantised tensors are written through their parts, which no storage map sees: a copy is the only safe
  // hold.
  const at::DisableRecordFunctionGuard quiet;  // our own copy is no call of the model
  at::Tensor held = tensor;
  if (kind != TensorKind::kOpaque) held = tensor.clone();
  if (kind != TensorKind::kOpaque) held_bytes_ += whole_bytes(held);
  Record record;
  record.shape = shape;
  record.strides = -1;
  record.dtype = static_cast<DType>(tensor.scalar_type());
  record.kind = kind;
  record.whole = static_cast<std::uint32_t>(whole_.size());
  whole_.push_back(std::move(held));
  records_.push_back(std::move(record));
  return static_cast<std::uint32_t>(records_.size() - 1);
}

std::uint32_t PayloadStore::keep_own(const at::Tensor& tensor, std::int32_t shape) {
  TL_CHECK(tensor.is_contiguous() && tensor.storage_offset() == 0, "a tensor made for the store is packed");
  Record record;
  record.storage = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(tensor.storage().unsafeGetStorageImpl());
  record.shape = shape;
  record.strides = -1;
  record.dtype = static_cast<DType>(tensor.scalar_type());
  records_.push_back(std::move(record));
  const auto index = static_cast<std::uint32_t>(records_.size() - 1);
  link(index);
  return index;
}

void PayloadStore::release(std::uint32_t index) {
  auto& record = records_[index];
  if (record.released) return;
  record.released = true;
  if (record.storage) {
    unlink(index);
    record.storage.reset();
  } else {
    if (record.kind != TensorKind::kOpaque) held_bytes_ -= whole_bytes(whole_[record.whole]);
    whole_[record.whole] = at::Tensor();
  }
}

std::size_t PayloadStore::value_bytes(std::uint32_t index) const {
  std::size_t bytes = item_bytes(records_[index].dtype);
  for (const auto size : (*shapes_)[records_[index].shape]) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

std::size_t PayloadStore::ValueKeyHash::operator()(const ValueKey& key) const {
  auto hash = static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(key.storage)) / 16;
  for (const auto part :
       {static_cast<std::uint64_t>(key.generation), static_cast<std::uint64_t>(key.offset),
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.shape)),
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.strides)), static_cast<std::uint64_t>(key.type)}) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29;
  }
  return hash;
}

PayloadStore::SeenStorage& PayloadStore::seen_storage(const c10::intrusive_ptr<c10::StorageImpl>& storage) {
  if (known_.size() >= sweep_at_) sweep_known_values();
  const auto found = seen_.find(storage.get());
  if (found != seen_.end()) return found->second;
  return seen_.emplace(storage.get(), SeenStorage{c10::weak_intrusive_ptr<c10::StorageImpl>(storage)}).first->second;
}

PayloadStore::ValueKey PayloadStore::key_of(const Record& record, std::uint32_t generation) {
  const auto type =
      static_cast<std::uint32_t>(record.dtype) << 2 | (record.conjugate ? 2u : 0u) | (record.negative ? 1u : 0u);
  return {record.storage.get(), generation, record.offset, record.shape, record.strides, type};
}

void PayloadStore::forget_values(const c10::StorageImpl* storage) {
  if (!unify_) return;
  const auto seen = seen_.find(storage);
  if (seen == seen_.end()) return;
  ++seen->second.generation;
  seen->second.kept = false;
}

void PayloadStore::sweep_known_values() {
  std::erase_if(known_, [&](const auto& entry) {
    const auto seen = seen_.find(entry.first.storage);
    return seen->second.generation != entry.first.generation || seen->second.address.expired();
  });
  std::erase_if(seen_, [](const auto& entry) { return entry.second.address.expired(); });
  sweep_at_ = 2 * known_.size() + 4096;
}

void PayloadStore::settle() {
  own_shapes_ = *shapes_;
  shapes_ = &own_shapes_;
  for (const auto& record : records_) {
    if (record.strides < 0) row_major_code(record.shape);  // so that facts() only reads
  }
}

void PayloadStore::link(std::uint32_t index) {
  auto& head = heads_.emplace(records_[index].storage.get(), kEnd).first->second;
  if (head == kEnd)
    held_bytes_ += records_[index].storage->nbytes();
  else
    records_[head].previous = index;
  records_[index].next = head;
  head = index;
}

void PayloadStore::unlink(std::uint32_t index) {
  auto& record = records_[index];
  if (record.next != kEnd) records_[record.next].previous = record.previous;
  if (record.previous != kEnd) {
    records_[record.previous].next = record.next;
  } else if (record.next != kEnd) {
    heads_[record.storage.get()] = record.next;
  } else {
    heads_.erase(record.storage.get());
    held_bytes_ -= std::min(held_bytes_, record.storage->nbytes());  // the model may have resized it
  }
}

std::vector<std::uint32_t> PayloadStore::payloads_of(const c10::StorageImpl* storage) const {
  std::vector<std::uint32_t> result;
  const auto found = heads_.find(storage);
  if (found == heads_.end()) return result;
  for (auto index = found->second; index != kEnd; index = records_[index].next) result.push_back(index);
  return result;
}

std::size_t PayloadStore::preserve(c10::StorageImpl* storage) {
  forget_values(storage);
  const auto members = payloads_of(storage);
  if (members.empty() || storage->nbytes() == 0) return 0;
  Extent window{std::numeric_limits<std::size_t>::max(), 0};
  for (const auto index : members) {
    const auto& record = records_[index];
    const auto strides = record.strides < 0 ? row_major_code(record.shape) : record.strides;
    const auto extent = extent_of((*shapes_)[record.shape], strides_[strides], record.offset, item_bytes(record.dtype));
    window = {std::min(window.begin, extent.begin), std::max(window.end, extent.end)};
  }
  // Aligned to the largest element, so that every member's offset stays a whole number of elements.
  window.begin -= window.begin % 16;
  const auto bytes = window.end > window.begin ? window.end - window.begin : 0;
  auto copy = make_storage(bytes);
  if (bytes != 0) {
    std::memcpy(copy->mutable_data(), static_cast<const char*>(storage->data()) + window.begin, bytes);
  }
  for (const auto index : members) {
    records_[index].offset -= static_cast<std::int64_t>(window.begin / item_bytes(records_[index].dtype));
  }
  move_payloads(storage, std::move(copy));
  preserved_bytes_ += bytes;
  return bytes;
}

void PayloadStore::move_payloads(c10::StorageImpl* storage, c10::intrusive_ptr<c10::StorageImpl> other) {
  forget_values(storage);
  const auto found = heads_.find(storage);
  if (found == heads_.end()) return;
  held_bytes_ += other->nbytes();
  held_bytes_ -= std::min(held_bytes_, storage->nbytes());
  const auto head = found->second;
  heads_.erase(found);
  heads_.emplace(other.get(), head);
  for (auto index = head; index != kEnd; index = records_[index].next) records_[index].storage = other;
}

std::int32_t PayloadStore::row_major_code(std::int32_t shape) const {
  const auto row = static_cast<std::size_t>(shape);
  if (row_major_.size() <= row) row_major_.resize(row + 1, -1);
  if (row_major_[row] < 0) row_major_[row] = strides_.intern(contiguous_strides((*shapes_)[shape]));
  return row_major_[row];
}

PayloadFacts PayloadStore::facts(PayloadId id) const {
  const auto& record = records_[id.index()];
  PayloadFacts facts;
  facts.kind = record.kind;
  facts.dtype = record.dtype;
  facts.sizes = (*shapes_)[record.shape];
  facts.strides = strides_[record.strides < 0 ? row_major_code(record.shape) : record.strides];
  facts.conjugate = record.conjugate;
  facts.negative = record.negative;
  if (record.storage) facts.offset = record.offset;
  if (unify_)
    facts.storage = id.index() + 1;
  else if (record.storage)
    facts.storage = reinterpret_cast<std::uintptr_t>(record.storage.get());
  else
    facts.storage = reinterpret_cast<std::uintptr_t>(whole_[record.whole].unsafeGetTensorImpl());
  return facts;
}

at::Tensor PayloadStore::materialise(std::uint32_t index) const {
  const auto& record = records_[index];
  if (!record.storage) return whole_[record.whole];
  const auto sizes = (*shapes_)[record.shape];
  const auto strides = strides_[record.strides < 0 ? row_major_code(record.shape) : record.strides];
  auto tensor =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(record.storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                               c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(record.dtype)));
  tensor.unsafeGetTensorImpl()->set_storage_offset(record.offset);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides({sizes.data(), sizes.size()}, {strides.data(), strides.size()});
  if (record.conjugate) tensor = tensor.conj();
  if (record.negative) tensor = at::_neg_view(tensor);
  return tensor;
}

TensorRefPtr PayloadStore::tensor(PayloadId id) const {
  if (released(static_cast<std::uint32_t>(id.index()))) return nullptr;
  return make_tensor_ref(materialise(static_cast<std::uint32_t>(id.index())));
}

}  // namespace tl::lt

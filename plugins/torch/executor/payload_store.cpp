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
  records_.push_back(std::move(record));
  const auto index = static_cast<std::uint32_t>(records_.size() - 1);

  auto& kept = records_.back();
  const auto item = tensor.itemsize();
  const auto bytes = static_cast<std::size_t>(tensor.numel()) * item;
  if (kept.storage->nbytes() > 2 * bytes + 4096 && kept.storage.use_count() <= 2 && !holds(kept.storage.get())) {
    const auto extent = extent_of({tensor.sizes().data(), tensor.sizes().size()},
                                  {tensor.strides().data(), tensor.strides().size()}, kept.offset, item);
    if (extent.end - extent.begin <= kept.storage->nbytes() / 2) {
      auto copy = make_storage(extent.end - extent.begin);
      std::memcpy(copy->mutable_data(), static_cast<const char*>(kept.storage->data()) + extent.begin,
                  extent.end - extent.begin);
      kept.storage = std::move(copy);
      kept.offset = 0;
    }
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

void PayloadStore::settle() {
  own_shapes_ = *shapes_;
  shapes_ = &own_shapes_;
  for (const auto& record : records_) {
    if (record.strides < 0) row_major_code(record.shape);  // so that facts() only reads
  }
}

void PayloadStore::link(std::uint32_t index) {
  auto& head = heads_.emplace(records_[index].storage.get(), kEnd).first->second;
  records_[index].next = head;
  head = index;
}

std::vector<std::uint32_t> PayloadStore::payloads_of(const c10::StorageImpl* storage) const {
  std::vector<std::uint32_t> result;
  const auto found = heads_.find(storage);
  if (found == heads_.end()) return result;
  for (auto index = found->second; index != kEnd; index = records_[index].next) result.push_back(index);
  return result;
}

std::size_t PayloadStore::preserve(c10::StorageImpl* storage) {
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
  const auto found = heads_.find(storage);
  if (found == heads_.end()) return;
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
  if (record.storage) {
    facts.storage = reinterpret_cast<std::uintptr_t>(record.storage.get());
    facts.offset = record.offset;
    facts.conjugate = record.conjugate;
    facts.negative = record.negative;
  } else {
    facts.storage = reinterpret_cast<std::uintptr_t>(whole_[record.whole].unsafeGetTensorImpl());
  }
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
  return make_tensor_ref(materialise(static_cast<std::uint32_t>(id.index())));
}

}  // namespace tl::lt

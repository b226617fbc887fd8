#include "archive/torch_rebuild.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "archive/entry_name.h"
#include "archive/limits.h"
#include "archive/zip_directory.h"
#include "core/error.h"

namespace tl {
namespace {

struct StorageClass {
  std::string_view name;
  DType dtype;
};

/// Storage classes of Python's torch.save, then those that only TorchScript's pickler names (ScalarType + "Storage").
constexpr std::array kStorageClasses = {
    StorageClass{"torch.FloatStorage", DType::kF32},
    StorageClass{"torch.DoubleStorage", DType::kF64},
    StorageClass{"torch.HalfStorage", DType::kF16},
    StorageClass{"torch.BFloat16Storage", DType::kBF16},
    StorageClass{"torch.LongStorage", DType::kI64},
    StorageClass{"torch.IntStorage", DType::kI32},
    StorageClass{"torch.ShortStorage", DType::kI16},
    StorageClass{"torch.CharStorage", DType::kI8},
    StorageClass{"torch.ByteStorage", DType::kU8},
    StorageClass{"torch.BoolStorage", DType::kBool},
    StorageClass{"torch.ComplexFloatStorage", DType::kC64},
    StorageClass{"torch.ComplexDoubleStorage", DType::kC128},
    StorageClass{"torch.QInt8Storage", DType::kQI8},
    StorageClass{"torch.QUInt8Storage", DType::kQU8},
    StorageClass{"torch.QInt32Storage", DType::kQI32},
    StorageClass{"torch.UntypedStorage", DType::kNone},
    StorageClass{"torch.storage.UntypedStorage", DType::kNone},
    StorageClass{"torch.ComplexHalfStorage", DType::kC32},
    StorageClass{"torch.UInt16Storage", DType::kU16},
    StorageClass{"torch.UInt32Storage", DType::kU32},
    StorageClass{"torch.UInt64Storage", DType::kU64},
    StorageClass{"torch.Float8_e5m2Storage", DType::kF8E5M2},
    StorageClass{"torch.Float8_e4m3fnStorage", DType::kF8E4M3},
    StorageClass{"torch.Float8_e5m2fnuzStorage", DType::kF8E5M2FNUZ},
    StorageClass{"torch.Float8_e4m3fnuzStorage", DType::kF8E4M3FNUZ},
    StorageClass{"torch.Float8_e8m0fnuStorage", DType::kF8E8M0},
};

/// Names that `call` understands, or that stand as plain arguments of those.
constexpr std::array<std::string_view, 29> kFunctions = {
    "collections.OrderedDict",
    "torch.Size",
    "torch.device",
    "torch.serialization._get_layout",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch._utils._rebuild_qtensor",
    "torch._utils._rebuild_sparse_tensor",
    "torch.per_tensor_affine",
    "torch.per_tensor_symmetric",
    "torch.per_channel_affine",
    "torch.per_channel_symmetric",
    "torch.jit._pickle.restore_type_tag",
    "torch.jit._pickle.build_intlist",
    "torch.jit._pickle.build_tensorlist",
    "torch.jit._pickle.build_doublelist",
    "torch.jit._pickle.build_boollist",
    "builtins.complex",
    "__builtin__.complex",
    "_codecs.encode",
    "builtins.bytes",
    "__builtin__.bytes",
    "torch.sparse_coo",
    "torch.sparse_csr",
    "torch.sparse_csc",
    "torch.sparse_bsr",
    "torch.sparse_bsc",
};

/// Tensors with attributes of Python: the function that rebuilds them, and the types whose attributes alone it adds.
/// TorchScript's pickler writes none of these.
constexpr std::string_view kRebuildFromType = "torch._tensor._rebuild_from_type_v2";
constexpr std::array<std::string_view, 3> kPlainTypes = {"torch.Tensor", "torch.nn.parameter.Parameter",
                                                         "torch.nn.Parameter"};

/// c10::Layout, as TorchScript's pickler writes it.
constexpr std::array<std::string_view, 7> kLayouts = {"",           "sparse_coo", "sparse_csr", "",
                                                      "sparse_csc", "sparse_bsr", "sparse_bsc"};

constexpr std::size_t kMaxDeviceBytes = 64;

const StorageClass* storage_class(std::string_view name) {
  const auto row = std::ranges::find(kStorageClasses, name, &StorageClass::name);
  return row == kStorageClasses.end() ? nullptr : &*row;
}

const PickleGlobal* global_of(const PickleValue& value) {
  const auto* shared = std::get_if<std::shared_ptr<const PickleGlobal>>(&value.data);
  return shared ? shared->get() : nullptr;
}

const PickleStorage* storage_of(const PickleValue& value) {
  const auto* shared = std::get_if<std::shared_ptr<const PickleStorage>>(&value.data);
  return shared ? shared->get() : nullptr;
}

DType integer_of_quantised(DType dtype) {
  switch (dtype) {
    case DType::kQI8:
      return DType::kI8;
    case DType::kQU8:
      return DType::kU8;
    case DType::kQI32:
      return DType::kI32;
    default:
      return DType::kNone;
  }
}

// Python 2 and 3 pickles of protocol 2 write bytes as _codecs.encode(text, "latin1").
std::optional<std::string> latin1_bytes(std::string_view utf8) {
  std::string bytes;
  bytes.reserve(utf8.size());
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto first = static_cast<unsigned char>(utf8[i]);
    if (first < 0x80) {
      bytes.push_back(utf8[i]);
    } else if ((first == 0xc2 || first == 0xc3) && i + 1 < utf8.size()) {
      const auto second = static_cast<unsigned char>(utf8[++i]);
      if ((second & 0xc0) != 0x80) return std::nullopt;
      bytes.push_back(static_cast<char>((first & 0x03) << 6 | (second & 0x3f)));
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

std::optional<double> number_of(const PickleValue& value) {
  if (const double* real = value.real()) return *real;
  if (const std::int64_t* integer = value.integer()) return static_cast<double>(*integer);
  return std::nullopt;
}

}  // namespace

TorchRebuilder::TorchRebuilder(const ZipDirectory* zip, std::string storage_prefix, std::string where,
                               const UnpickleOptions& options)
    : zip_(zip), prefix_(std::move(storage_prefix)), where_(std::move(where)), options_(options) {}

void TorchRebuilder::unsafe(const std::string& name) const {
  throw Error(ErrorCode::kUnsafePickle, where_ + ": the pickle refers to " + quoted_name(name),
              "save plain tensors, numbers, strings, lists, tuples and dicts with torch.save, or use .safetensors",
              "only tensors, numbers, strings, None, list, tuple, dict and OrderedDict are read; nothing was executed");
}

void TorchRebuilder::damaged(const std::string& what) const {
  const std::string place = place_ ? place_() : std::string();
  throw Error(ErrorCode::kFileDamaged, where_ + ": pickle: " + (place.empty() ? "" : place + ": ") + what);
}

PickleValue TorchRebuilder::global(const std::string& name) const {
  constexpr std::string_view kTorch = "torch.";
  if (name.starts_with(kTorch)) {
    if (const auto dtype = dtype_from_name(std::string_view(name).substr(kTorch.size()))) return {*dtype};
  }
  const bool script_class = options_.script_classes && name.starts_with("__torch__.");
  const bool from_type = !options_.script_classes &&
                         (name == kRebuildFromType || std::ranges::find(kPlainTypes, name) != kPlainTypes.end());
  const bool is_known = script_class || from_type || storage_class(name) || is_record(name) ||
                        std::ranges::find(kFunctions, name) != kFunctions.end();
  if (!is_known) unsafe(name);
  return {std::make_shared<const PickleGlobal>(name)};
}

bool TorchRebuilder::is_record(std::string_view name) const {
  return std::ranges::find(options_.records, name.substr(name.rfind('.') + 1)) != options_.records.end();
}

std::optional<PickleValue> TorchRebuilder::call(const std::string& name, std::span<const PickleValue> args) {
  const auto wrong = [&]() { damaged("unexpected arguments of " + name); };
  if (name == "torch._utils._rebuild_tensor_v2") return rebuild_tensor(args, false);
  if (name == "torch._utils._rebuild_tensor_v3") return rebuild_tensor(args, true);
  if (name == "torch._utils._rebuild_qtensor") return rebuild_quantised(args);
  if (name == "torch._utils._rebuild_sparse_tensor") return rebuild_sparse(args);
  if (name == kRebuildFromType) return rebuild_from_type(args);
  if (name.starts_with("torch._utils._rebuild_parameter") || name.starts_with("torch.jit._pickle.")) {
    if (args.empty()) wrong();
    return args[0];
  }
  if (name == "torch.Size") {
    if (args.size() != 1 || !args[0].sequence()) wrong();
    return args[0];
  }
  if (name == "torch.device") {
    const std::string* type = args.empty() ? nullptr : args[0].string();
    const std::int64_t* index = args.size() > 1 ? args[1].integer() : nullptr;
    if (!type || type->size() > kMaxDeviceBytes || args.size() > 2 || (args.size() == 2 && !index)) wrong();
    return PickleValue{PickleDevice{index ? *type + ':' + std::to_string(*index) : *type}};
  }
  if (name == "torch.serialization._get_layout") {
    const std::string* layout = args.size() == 1 ? args[0].string() : nullptr;
    if (!layout) wrong();
    return args[0];
  }
  if (name.ends_with(".complex")) {
    const auto real = args.size() == 2 ? number_of(args[0]) : std::nullopt;
    const auto imaginary = args.size() == 2 ? number_of(args[1]) : std::nullopt;
    if (!real || !imaginary) wrong();
    return PickleValue{std::complex<double>(*real, *imaginary)};
  }
  if (name == "_codecs.encode" || name.ends_with(".bytes")) {
    const std::string* text = args.empty() ? nullptr : args[0].string();
    auto bytes = args.empty() ? std::string() : text ? latin1_bytes(*text) : std::nullopt;
    if (!bytes) wrong();
    return PickleValue{PickleBytes{std::make_shared<const std::string>(std::move(*bytes))}};
  }
  return std::nullopt;
}

PickleValue TorchRebuilder::storage(const PickleValue& id) {
  const PickleSequence* tuple = id.sequence();
  const bool shaped = tuple && tuple->items.size() >= 5;
  const std::string* tag = shaped ? tuple->items[0].string() : nullptr;
  const PickleGlobal* cls = shaped ? global_of(tuple->items[1]) : nullptr;
  const std::string* key = shaped ? tuple->items[2].string() : nullptr;
  const std::int64_t* count = shaped ? tuple->items[4].integer() : nullptr;
  if (!tag || *tag != "storage" || !cls || !key || !count || *count < 0) damaged("a persistent id that is no storage");
  const StorageClass* row = storage_class(cls->name);
  if (!row) unsafe(cls->name);
  const std::uint64_t item = row->dtype == DType::kNone ? 1 : item_bytes(row->dtype);
  std::uint64_t nbytes = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(*count), item, &nbytes)) {
    damaged("storage " + quoted_name(*key) + " of " + std::to_string(*count) + " elements");
  }
  auto storage = std::make_shared<PickleStorage>(load(*key));
  storage->dtype = row->dtype;
  if (options_.tensors_without_data && nbytes > 0 && storage->size == 0) {
    storage->has_data = false;
    return {storage};
  }
  if (!storage->has_data)
    damaged("storage " + quoted_name(prefix_ + *key) + " of " + std::to_string(nbytes) + " bytes is not in the file");
  if (nbytes > storage->size) {
    damaged("storage " + quoted_name(prefix_ + *key) + " has " + std::to_string(storage->size) +
            " bytes, its tensors say " + std::to_string(nbytes));
  }
  storage->size = nbytes;
  if (!options_.sizes_only) storage->bytes = storage->bytes.first(static_cast<std::size_t>(nbytes));
  return {storage};
}

// Readers look at elements in place, so what is not aligned for the widest of them is copied, like what is compressed.
const PickleStorage& TorchRebuilder::load(const std::string& key) {
  const auto [slot, fresh] = storages_.try_emplace(key);
  PickleStorage& storage = slot->second;
  if (!fresh) return storage;
  const ZipEntry* entry = zip_ ? zip_->find(prefix_ + key) : nullptr;
  storage.has_data = entry != nullptr;
  if (!entry) return storage;
  storage.size = entry->size;
  if (options_.sizes_only) {
    storage.owner = std::make_shared<const std::string>(key);
    return storage;
  }
  if (zip_->owner() && entry->method == ZipMethod::kStored) {
    const std::span<const std::byte> bytes = zip_->stored(*entry);
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::max_align_t) == 0) {
      storage.bytes = bytes;
      storage.owner = zip_->owner();
      return storage;
    }
  }
  const auto copy = std::make_shared<const std::vector<std::byte>>(zip_->read(*entry));
  storage.bytes = *copy;
  storage.owner = copy;
  return storage;
}

TorchRebuilder::Meta TorchRebuilder::meta_of(std::span<const PickleValue> args) const {
  Meta meta;
  const std::int64_t* offset = args[1].integer();
  if (!offset) damaged("a tensor whose offset is no integer");
  meta.offset = *offset;
  const auto take = [&](const PickleValue& value, std::vector<std::int64_t>& numbers) {
    const PickleSequence* sequence = value.sequence();
    if (!sequence) damaged("a tensor whose shape is a " + std::string(type_name(value)));
    if (sequence->items.size() > limits::kTensorRank) {
      throw Error(ErrorCode::kFileLimits, where_ + ": a tensor of " + std::to_string(sequence->items.size()) +
                                              " dimensions, the limit is " + std::to_string(limits::kTensorRank));
    }
    for (const PickleValue& item : sequence->items) {
      if (!item.integer()) damaged("a tensor whose shape holds a " + std::string(type_name(item)));
      numbers.push_back(*item.integer());
    }
  };
  take(args[2], meta.sizes);
  take(args[3], meta.strides);
  return meta;
}

HostTensor TorchRebuilder::strided(const PickleStorage& storage, DType dtype, const Meta& meta) const {
  HostTensor tensor{dtype, meta.sizes, meta.strides, meta.offset, storage.bytes, storage.owner};
  const auto numel = static_cast<std::uint64_t>(checked_numel(tensor.sizes));
  if (tensor.sizes.size() != tensor.strides.size()) {
    damaged("a tensor with " + std::to_string(tensor.sizes.size()) + " sizes and " +
            std::to_string(tensor.strides.size()) + " strides");
  }
  if (!storage.has_data) return tensor;
  if (!fits_storage(tensor, static_cast<std::size_t>(storage.size))) {
    damaged("a tensor of " + std::to_string(numel) + " elements at offset " + std::to_string(tensor.offset) +
            " reaches beyond its storage of " + std::to_string(storage.size) + " bytes");
  }
  const std::uint64_t item = item_bytes(dtype);
  const std::uint64_t allowed = std::max(limits::kExpandFreeBytes, limits::kExpandRatio * storage.size);
  if (item != 0 && numel > allowed / item) {
    throw Error(ErrorCode::kFileLimits, where_ + ": a tensor of " + std::to_string(numel) +
                                            " elements expanded from a storage of " + std::to_string(storage.size) +
                                            " bytes");
  }
  return tensor;
}

void TorchRebuilder::refuse_view_bits(const PickleValue& metadata) const {
  const PickleDict* dict = metadata.dict();
  if (!dict) return;
  for (const auto& [key, value] : dict->items) {
    if (value.boolean() && *value.boolean()) {
      throw Error(ErrorCode::kUnsupportedKind, where_ + ": a tensor saved as a conjugate or negative view",
                  "save it with .resolve_conj().resolve_neg()");
    }
  }
}

// (storage, offset, size, stride, requires_grad, hooks[, dtype][, metadata]); dtype in version 3 only.
PickleValue TorchRebuilder::rebuild_tensor(std::span<const PickleValue> args, bool version_3) {
  constexpr std::size_t kDTypeAt = 6;
  const std::size_t metadata_at = version_3 ? kDTypeAt + 1 : kDTypeAt;
  const PickleStorage* storage = args.size() >= (version_3 ? metadata_at : 4) ? storage_of(args[0]) : nullptr;
  if (!storage) damaged("unexpected arguments of _rebuild_tensor");
  DType dtype = storage->dtype;
  if (version_3) {
    const DType* given = std::get_if<DType>(&args[kDTypeAt].data);
    if (!given) damaged("a tensor without a dtype");
    dtype = *given;
  }
  if (dtype == DType::kNone) damaged("a tensor with an untyped storage and no dtype");
  if (args.size() > metadata_at) refuse_view_bits(args[metadata_at]);
  return {std::make_shared<const HostTensor>(strided(*storage, dtype, meta_of(args)))};
}

PickleValue TorchRebuilder::rebuild_quantised(std::span<const PickleValue> args) {
  const PickleStorage* storage = args.size() >= 5 ? storage_of(args[0]) : nullptr;
  const PickleSequence* parameters = storage ? args[4].sequence() : nullptr;
  if (!parameters || parameters->items.size() < 3) damaged("unexpected arguments of _rebuild_qtensor");
  PickleQuantisedTensor tensor;
  tensor.dtype = storage->dtype;
  const DType integers = integer_of_quantised(storage->dtype);
  if (integers == DType::kNone) damaged("a quantised tensor of " + std::string(short_name(storage->dtype)));
  tensor.int_repr = strided(*storage, integers, meta_of(args));
  const std::vector<PickleValue>& items = parameters->items;
  const PickleGlobal* scheme = global_of(items[0]);
  if (scheme && scheme->name == "torch.per_tensor_affine") {
    const auto scale = number_of(items[1]);
    if (!scale || !items[2].integer()) damaged("a quantised tensor without scale and zero point");
    tensor.scale = *scale;
    tensor.zero_point = *items[2].integer();
  } else if (scheme && scheme->name == "torch.per_channel_affine" && items.size() >= 4) {
    if (!items[1].tensor() || !items[2].tensor() || !items[3].integer()) {
      damaged("a per-channel quantised tensor without scales, zero points and axis");
    }
    tensor.per_channel = true;
    tensor.scales = *items[1].tensor();
    tensor.zero_points = *items[2].tensor();
    tensor.axis = *items[3].integer();
    const auto rank = static_cast<std::int64_t>(tensor.int_repr.sizes.size());
    const bool on_axis = tensor.axis >= 0 && tensor.axis < rank;
    const std::int64_t channels = on_axis ? tensor.int_repr.sizes[static_cast<std::size_t>(tensor.axis)] : -1;
    if (tensor.scales.numel() != channels || tensor.zero_points.numel() != channels) {
      damaged("a quantised tensor with " + std::to_string(tensor.scales.numel()) + " scales on axis " +
              std::to_string(tensor.axis));
    }
  } else {
    damaged("a quantised tensor of unknown scheme");
  }
  return {std::make_shared<const PickleQuantisedTensor>(std::move(tensor))};
}

// Python: (layout, (indices…, values, size, …)). TorchScript: (layout number, size, requires_grad, indices…, values,
// hooks).
PickleValue TorchRebuilder::rebuild_sparse(std::span<const PickleValue> args) {
  PickleSparseTensor tensor;
  const auto wrong = [&]() { damaged("unexpected arguments of _rebuild_sparse_tensor"); };
  if (args.size() < 2) wrong();
  std::vector<const HostTensor*> tensors;
  const PickleValue* sizes = nullptr;
  const PickleSequence* data = args[1].sequence();
  if (!data || data->items.size() > limits::kPickleArguments) wrong();
  if (const std::int64_t* layout = args[0].integer()) {
    if (*layout < 0 || static_cast<std::size_t>(*layout) >= kLayouts.size()) wrong();
    tensor.layout = kLayouts[static_cast<std::size_t>(*layout)];
    sizes = &args[1];
    for (const PickleValue& value : args.subspan(2)) {
      if (value.tensor()) tensors.push_back(value.tensor());
    }
  } else {
    const std::string* name = args[0].string();
    const PickleGlobal* global = global_of(args[0]);
    const std::string full = name ? *name : global ? global->name : std::string();
    if (!full.starts_with("torch.")) wrong();
    tensor.layout = full.substr(std::string_view("torch.").size());
    for (const PickleValue& value : data->items) {
      if (value.tensor()) tensors.push_back(value.tensor());
      if (value.sequence() && !sizes) sizes = &value;
    }
  }
  const bool coo = tensor.layout == "sparse_coo";
  if (std::ranges::find(kLayouts, tensor.layout) == kLayouts.end() || tensor.layout.empty() || !sizes ||
      !sizes->sequence() || tensors.size() != (coo ? 2 : 3)) {
    wrong();
  }
  for (const PickleValue& size : sizes->sequence()->items) {
    if (!size.integer()) wrong();
    tensor.sizes.push_back(*size.integer());
  }
  checked_numel(tensor.sizes);
  if (!coo) tensor.compressed = *tensors[0];
  tensor.indices = *tensors[coo ? 0 : 1];
  tensor.values = *tensors.back();
  return {std::make_shared<const PickleSparseTensor>(std::move(tensor))};
}

// (function, type, arguments of the function, state). A plain type adds nothing but the state: attributes of Python,
// such as what mark_dynamic notes, which no reader asks for.
std::optional<PickleValue> TorchRebuilder::rebuild_from_type(std::span<const PickleValue> args) {
  const PickleGlobal* function = args.size() == 4 ? global_of(args[0]) : nullptr;
  const PickleGlobal* type = function ? global_of(args[1]) : nullptr;
  const PickleSequence* inner = type ? args[2].sequence() : nullptr;
  if (!inner || inner->items.size() > limits::kPickleArguments) {
    damaged("unexpected arguments of " + std::string(kRebuildFromType));
  }
  if (std::ranges::find(kPlainTypes, type->name) == kPlainTypes.end()) unsafe(type->name);
  if (!function->name.starts_with("torch._utils._rebuild_")) unsafe(function->name);
  return call(function->name, inner->items);
}

}  // namespace tl

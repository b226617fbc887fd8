#include "exported/state.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

#include "bridge/tensor_bridge.h"
#include "core/digest.h"
#include "core/error.h"
#include "core/file_descriptor.h"

namespace tl::lt {
namespace {

/// The whole file once more, private and writable.
class PrivateMapping {
 public:
  PrivateMapping(const MappedFile& file, std::size_t size) : size_(size) {
    if (size == 0) return;
    const FileDescriptor descriptor(::open(file.path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (!descriptor.valid() || ::fstat(descriptor.get(), &status) != 0 ||
        static_cast<std::size_t>(status.st_size) != size) {
      throw Error(ErrorCode::kFileMissing, file.path().string() + ": changed while it was read");
    }
    void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor.get(), 0);
    if (at == MAP_FAILED) throw Error(ErrorCode::kFileMissing, file.path().string() + ": cannot be mapped");
    base_ = static_cast<std::byte*>(at);
  }
  ~PrivateMapping() {
    if (base_ != nullptr) ::munmap(base_, size_);
  }
  PrivateMapping(const PrivateMapping&) = delete;
  PrivateMapping& operator=(const PrivateMapping&) = delete;
  std::byte* base() const { return base_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t size_;
};

class Storages {
 public:
  explicit Storages(const MappedFile& file) : file_(file) {}

  /// The storage of a payload, shared by all payloads over the same bytes.
  c10::Storage of(const HostTensor& tensor) {
    const auto key = std::pair(tensor.storage.data(), tensor.storage.size());
    if (const auto found = made_.find(key); found != made_.end()) return found->second;
    return made_.emplace(key, make(tensor.storage)).first->second;
  }

 private:
  c10::Storage make(std::span<const std::byte> bytes) {
    const auto whole = file_.bytes();
    const bool mapped =
        !bytes.empty() && bytes.data() >= whole.data() && bytes.data() + bytes.size() <= whole.data() + whole.size();
    if (!mapped) {
      c10::Storage storage(c10::Storage::use_byte_size_t(), bytes.size(), at::getCPUAllocator(), true);
      if (!bytes.empty()) std::memcpy(storage.mutable_data(), bytes.data(), bytes.size());
      return storage;
    }
    if (mapping_ == nullptr) mapping_ = std::make_shared<PrivateMapping>(file_, whole.size());
    auto* data = mapping_->base() + (bytes.data() - whole.data());
    auto* owner = new std::shared_ptr<PrivateMapping>(mapping_);
    c10::DataPtr pointer(
        data, owner, [](void* held) { delete static_cast<std::shared_ptr<PrivateMapping>*>(held); },
        c10::Device(c10::kCPU));
    return c10::Storage(c10::Storage::use_byte_size_t(), bytes.size(), std::move(pointer), nullptr, false);
  }

  const MappedFile& file_;
  std::shared_ptr<PrivateMapping> mapping_;
  std::map<std::pair<const std::byte*, std::size_t>, c10::Storage> made_;
};

at::Tensor tensor_of(const ExportedPayload& payload, Storages& storages, c10::Device device) {
  const auto& host = payload.tensor;
  auto tensor = at::empty({0}, at::TensorOptions().dtype(static_cast<at::ScalarType>(host.dtype)));
  tensor.set_(storages.of(host), host.offset, host.sizes, host.strides);
  if (!device.is_cpu()) tensor = tensor.to(device);
  if (payload.is_parameter && payload.meta.requires_grad && (tensor.is_floating_point() || tensor.is_complex())) {
    tensor.set_requires_grad(true);
  }
  return tensor;
}

/// An object of a registered C++ class, by the class's own unpickling; what it may hold was checked before.
c10::IValue object_of(const ExportedPayload& payload, const std::string& file) {
  const auto bytes = payload.tensor.storage;
  try {
    return torch::jit::pickle_load(std::vector<char>(reinterpret_cast<const char*>(bytes.data()),
                                                     reinterpret_cast<const char*>(bytes.data()) + bytes.size()));
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw Error(ErrorCode::kUnsupportedProgram,
                file + ": the object " + payload.name + " cannot be made: " + text.substr(0, text.find('\n')));
  }
}

/// Parameters and constants met so far, by storage.
struct KnownTensor {
  at::Tensor tensor;
  Prov prov;
};
using KnownTensors = std::unordered_map<const c10::StorageImpl*, std::vector<KnownTensor>>;

/// One tensor under several names: the same bytes seen the same way.
bool same_view(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() != 0 && a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

/// Digest of a payload's packed elements; empty where they do not lie packed in the file.
std::string digest_of(const ExportedPayload& payload, const ZipDirectory& zip) {
  const auto& tensor = payload.tensor;
  if (!tensor.is_contiguous()) return {};
  const auto* entry = zip.find(payload.entry);
  const bool whole = entry != nullptr && entry->method == ZipMethod::kStored && tensor.offset == 0 &&
                     tensor.nbytes() == entry->size && zip.stored(*entry).data() == tensor.storage.data();
  if (whole) return std::string(zip.digest(*entry));
  const auto begin = static_cast<std::size_t>(tensor.offset) * item_bytes(tensor.dtype);
  return digest_hex(tensor.nbytes() == 0 ? tensor.storage.first(0) : tensor.storage.subspan(begin, tensor.nbytes()));
}

}  // namespace

/// The rows of static tables that a first state fills.
struct ExportedStateMaker::Rows {
  const ZipDirectory& zip;
  StaticTables& tables;
  const std::function<std::int32_t(const std::string&)>& owner_of;
};

ExportedStateMaker::ExportedStateMaker(const ExportedProgram& program, std::shared_ptr<const MappedFile> file,
                                       c10::Device device)
    : program_(program), file_(std::move(file)), device_(device) {}

ExportedState ExportedStateMaker::make(const ZipDirectory& zip, StaticTables& tables,
                                       const std::function<std::int32_t(const std::string&)>& owner_of) const {
  Rows rows{zip, tables, owner_of};
  return make(&rows);
}

ExportedState ExportedStateMaker::make() const { return make(nullptr); }

ExportedState ExportedStateMaker::make(Rows* rows) const {
  using Kind = ExportedInputSpec::Kind;
  const at::NoGradGuard no_grad;
  const auto file = file_->path().filename().string();
  Storages storages(*file_);
  ExportedState state;
  state.values.resize(program_.input_specs.size());
  state.provs.resize(program_.input_specs.size());
  KnownTensors params;
  std::uint32_t num_params = 0;
  auto& modules = state.modules;
  std::unordered_map<std::string_view, const ExportedPayload*> payloads;
  for (const auto& payload : program_.payloads) payloads.emplace(payload.name, &payload);
  for (std::size_t i = 0; i < program_.input_specs.size(); ++i) {
    const auto& spec = program_.input_specs[i];
    if (spec.kind == Kind::kUserInput || spec.kind == Kind::kConstantInput || spec.kind == Kind::kToken) continue;
    const auto known_payload = payloads.find(spec.target);
    const auto* payload = known_payload == payloads.end() ? nullptr : known_payload->second;
    if (payload == nullptr) throw Error(ErrorCode::kFileDamaged, file + ": there is no payload for " + spec.target);
    if (!payload->refusal.empty()) {
      throw Error(ErrorCode::kUnsupportedProgram, file + ": " + spec.target + " cannot be read: " + payload->refusal,
                  "export the model with plain tensors for parameters and buffers");
    }
    if (spec.kind == Kind::kCustomObject || payload->is_object) {
      state.values[i] = object_of(*payload, file);
      continue;
    }
    const auto tensor = tensor_of(*payload, storages, device_);
    state.values[i] = tensor;
    auto* storage = tensor.storage().unsafeGetStorageImpl();
    if (spec.kind == Kind::kBuffer) {
      const auto row = static_cast<std::uint32_t>(modules.buffers.size());
      if (rows != nullptr) append_buffer_row(rows->tables, tensor, spec.target, rows->owner_of(spec.target));
      modules.buffers.push_back(tensor);
      modules.buffers_of_storage[storage].push_back(row);
      state.provs[i] = Prov::buffer(row);
    } else {
      modules.state_of_storage.emplace(storage, spec.target);
      auto& same_storage = params[storage];
      const auto known =
          std::ranges::find_if(same_storage, [&](const auto& other) { return same_view(other.tensor, tensor); });
      if (known != same_storage.end()) {
        state.provs[i] = known->prov;
        if (rows != nullptr) {
          auto& tables = rows->tables;
          auto& all = tables.params.all_addresses.mut(known->prov.index());
          all = tables.strings.intern(std::string(tables.strings[all]) + "," + spec.target);
        }
      } else {
        const auto kind = spec.kind == Kind::kParameter ? ParamKind::kParameter : ParamKind::kConstant;
        if (rows != nullptr) {
          append_param(rows->tables, tensor, spec.target, rows->owner_of(spec.target), kind,
                       digest_of(*payload, rows->zip));
        }
        state.provs[i] = Prov::param(num_params++);
        same_storage.push_back({tensor, state.provs[i]});
      }
    }
    modules.known_tensors.insert_or_assign(tensor.unsafeGetTensorImpl(), state.provs[i]);
  }
  return state;
}

}  // namespace tl::lt

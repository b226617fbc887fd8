#include "archive/model_contents.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>

#include "archive/contents_parts.h"
#include "archive/model_kind.h"
#include "archive/tensor_walk.h"
#include "archive/unpickler.h"
#include "core/digest.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "core/parallel.h"
#include "tensor/safetensors.h"

namespace tl {
namespace {

std::span<const std::byte> packed_bytes(const HostTensor& packed) {
  if (packed.nbytes() == 0) return packed.storage.first(0);
  return packed.storage.subspan(static_cast<std::size_t>(packed.offset) * item_bytes(packed.dtype), packed.nbytes());
}

std::string digest_of(const std::vector<HostTensor>& parts) {
  if (parts.size() == 1) return digest_hex(packed_bytes(to_contiguous(parts[0])));
  Digester digester;
  for (const auto& part : parts) digester.update(packed_bytes(to_contiguous(part)));
  return digester.hex();
}

/// A scalar of a quantised tensor as a tensor, so that it can be part of the digest.
template <typename T>
HostTensor scalar_tensor(DType dtype, T value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return make_host_tensor(dtype, {}, std::move(bytes));
}

std::string step(const PickleValue& key) {
  if (key.string() != nullptr) return *key.string();
  if (key.integer() != nullptr) return std::to_string(*key.integer());
  return std::string(type_name(key));
}

void add_row(const std::string& name, ModelTensor::Kind kind, DType dtype, std::vector<std::int64_t> sizes,
             ModelContents& contents) {
  constexpr std::size_t kMaxNameBytes = std::size_t{64}
                                        << 20;  // shared containers can spell long names again and again
  constexpr std::size_t kLongestName = 1'024;
  if (contents.tensors.size() * std::min(name.size(), kLongestName) > kMaxNameBytes) {
    throw Error(ErrorCode::kFileLimits,
                "data.pkl: the names of its tensors take more than " + std::to_string(kMaxNameBytes) + " bytes");
  }
  contents.tensors.push_back({name, {}, kind, dtype, std::move(sizes), {}});
}

ModelContents state_dict_contents(const ZipDirectory& zip, const ModelFileInfo& info, unsigned threads) {
  ModelContents contents;
  TensorDigests digests(&zip);
  const auto value = read_torch_pickle(zip, info.root + "data.pkl", info.root + "data/");
  add_tensors(value, "", ModelTensor::Kind::kUnknown, contents, digests);
  digests.take(contents.tensors, threads);
  return contents;
}

ModelContents safetensors_contents(const std::shared_ptr<const MappedFile>& file, const std::string& name,
                                   unsigned threads) {
  ModelContents contents;
  TensorDigests digests;
  const auto tensors = SafetensorsFile::from_bytes(file->bytes(), file, name);
  for (const auto& entry : tensors.entries()) {
    digests.want(contents.tensors.size(), {tensors.tensor(entry)});
    contents.tensors.push_back({entry.name, {}, ModelTensor::Kind::kUnknown, entry.dtype, entry.sizes, {}});
  }
  digests.take(contents.tensors, threads);
  return contents;
}

bool is_tensor_file(ModelKind kind) { return kind == ModelKind::kStateDict || kind == ModelKind::kSafetensors; }

}  // namespace

void TensorDigests::want(std::size_t row, std::vector<HostTensor> parts, std::string prefix) {
  // A damaged file may leave a part without the bytes that it speaks of: then there is nothing to take a digest of.
  const bool complete =
      std::ranges::all_of(parts, [](const HostTensor& part) { return fits_storage(part, part.storage.size()); });
  if (complete) jobs_.push_back({row, std::move(parts), std::move(prefix)});
}

std::unordered_map<const std::byte*, const ZipEntry*> TensorDigests::stored_entries() const {
  std::unordered_map<const std::byte*, const ZipEntry*> entries;
  if (zip_ == nullptr) return entries;
  for (const auto& entry : zip_->entries()) {
    if (entry.method == ZipMethod::kStored && entry.size > 0) entries.emplace(zip_->stored(entry).data(), &entry);
  }
  return entries;
}

void TensorDigests::take(std::vector<ModelTensor>& tensors, unsigned threads) {
  using Key = std::tuple<const std::byte*, std::int64_t, DType, std::vector<std::int64_t>, std::vector<std::int64_t>>;
  std::map<Key, std::size_t> first;
  std::vector<std::size_t> work;
  std::vector<std::size_t> same_as(jobs_.size());
  std::vector<std::string> digests(jobs_.size());
  const auto entries = stored_entries();
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    same_as[i] = i;
    if (jobs_[i].parts.size() == 1) {
      const auto& part = jobs_[i].parts[0];
      if (const auto entry = entries.find(part.storage.data()); entry != entries.end()) {
        const bool whole = part.offset == 0 && part.is_contiguous() && part.nbytes() == entry->second->size;
        if (whole) digests[i] = zip_->digest(*entry->second);
        if (!digests[i].empty()) continue;
      }
      same_as[i] =
          first.try_emplace({part.storage.data(), part.offset, part.dtype, part.sizes, part.strides}, i).first->second;
    }
    if (same_as[i] == i) work.push_back(i);
  }
  // The largest first, so that threads end together.
  std::ranges::stable_sort(work, std::ranges::greater(), [&](std::size_t i) {
    std::size_t bytes = 0;
    for (const auto& part : jobs_[i].parts) bytes += part.nbytes();
    return bytes;
  });
  for_each_parallel(work.size(), threads, [&](std::size_t i) { digests[work[i]] = digest_of(jobs_[work[i]].parts); });
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    tensors[jobs_[i].row].digest = jobs_[i].prefix + digests[same_as[i]];
  }
  jobs_.clear();
}

void add_tensors(const PickleValue& value, const std::string& name, ModelTensor::Kind kind, ModelContents& contents,
                 TensorDigests& digests) {
  const auto row = contents.tensors.size();
  if (const auto* tensor = value.tensor()) {
    const bool has_data = tensor->numel() == 0 || !tensor->storage.empty();
    if (has_data) digests.want(row, {*tensor});
    return add_row(name, kind, tensor->dtype, tensor->sizes, contents);
  }
  if (const auto* sparse = value.sparse_tensor()) {
    std::vector<HostTensor> parts = {sparse->indices, sparse->values};
    if (sparse->layout != "sparse_coo") parts.push_back(sparse->compressed);
    digests.want(row, std::move(parts), sparse->layout + ":");
    return add_row(name, kind, sparse->values.dtype, sparse->sizes, contents);
  }
  if (const auto* quantised = value.quantised_tensor()) {
    std::vector<HostTensor> parts = {quantised->int_repr};
    if (quantised->per_channel) {
      parts.push_back(quantised->scales);
      parts.push_back(quantised->zero_points);
      parts.push_back(scalar_tensor(DType::kI64, quantised->axis));
    } else {
      parts.push_back(scalar_tensor(DType::kF64, quantised->scale));
      parts.push_back(scalar_tensor(DType::kI64, quantised->zero_point));
    }
    digests.want(row, std::move(parts), "quantised:");
    return add_row(name, kind, quantised->dtype, quantised->int_repr.sizes, contents);
  }
  if (const auto* sequence = value.sequence()) {
    for (std::size_t i = 0; i < sequence->items.size(); ++i) {
      add_tensors(sequence->items[i], path_below(name, std::to_string(i)), kind, contents, digests);
    }
  } else if (const auto* dict = value.dict()) {
    for (const auto& [key, item] : dict->items) {
      add_tensors(item, path_below(name, step(key)), kind, contents, digests);
    }
  } else if (const auto* object = value.object()) {
    for (std::size_t i = 0; i < object->args.size(); ++i) {
      add_tensors(object->args[i], path_below(name, std::to_string(i)), kind, contents, digests);
    }
    add_tensors(object->state, name, kind, contents, digests);
  }
}

std::vector<std::pair<std::string, std::uint64_t>> operator_counts(const TorchScriptScan& scan) {
  std::vector<std::pair<std::string, std::uint64_t>> counts;
  counts.reserve(scan.operators.size());
  for (const auto& use : scan.operators) counts.emplace_back(use.name, use.count);
  return counts;
}

std::string main_dtype(const std::vector<ModelTensor>& tensors) {
  const bool parameters =
      std::ranges::find(tensors, ModelTensor::Kind::kParameter, &ModelTensor::kind) != tensors.end();
  std::map<DType, double> bytes;
  for (const auto& tensor : tensors) {
    if (parameters && tensor.kind != ModelTensor::Kind::kParameter) continue;
    double size = static_cast<double>(item_bytes(tensor.dtype));
    for (const auto extent : tensor.sizes) size *= static_cast<double>(extent);
    bytes[tensor.dtype] += size;
  }
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; });
  return most == bytes.end() ? std::string() : std::string(short_name(most->first));
}

std::string joined_details(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) {
    if (!part.empty()) text += (text.empty() ? "" : " · ") + part;
  }
  return text;
}

bool has_model_contents(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  const auto kind = inspect_model_file(path).kind;
  return kind == ModelKind::kTorchScript || kind == ModelKind::kExportedProgram || is_tensor_file(kind);
}

std::vector<std::string> tensor_file_names(const std::filesystem::path& path) {
  std::vector<std::string> names;
  const auto file = MappedFile::open(path);
  std::optional<ZipDirectory> zip;
  if (looks_like_zip(file->bytes())) zip.emplace(file->bytes(), path.string(), file);
  const auto info = inspect_model_file(path, file->bytes(), zip ? &*zip : nullptr);
  if (info.kind == ModelKind::kSafetensors) {
    const auto tensors = SafetensorsFile::from_bytes(file->bytes(), file, path.string());
    for (const auto& entry : tensors.entries()) names.push_back(entry.name);
  } else if (info.kind == ModelKind::kStateDict) {
    const UnpickleOptions look = {.script_classes = false, .tensors_without_data = true, .sizes_only = true};
    for_each_tensor(read_torch_pickle(*zip, info.root + "data.pkl", info.root + "data/", look), "",
                    [&](const std::string& name, const PickledTensor&) { names.push_back(name); });
  }
  return names;
}

ModelContents read_model_contents(const std::filesystem::path& path, unsigned threads) {
  const auto file = MappedFile::open(path);
  std::optional<ZipDirectory> zip;
  if (looks_like_zip(file->bytes())) {
    zip.emplace(file->bytes(), path.string(), file);
    zip->verify_and_digest(threads);
  }
  const auto info = inspect_model_file(path, file->bytes(), zip ? &*zip : nullptr);
  if (!is_tensor_file(info.kind)) {
    if (auto refusal = refusal_for(info)) throw std::move(*refusal);
    return info.kind == ModelKind::kTorchScript ? torchscript_contents(*zip, threads)
                                                : exported_contents(*zip, threads);
  }
  auto contents = info.kind == ModelKind::kStateDict ? state_dict_contents(*zip, info, threads)
                                                     : safetensors_contents(file, path.string(), threads);
  contents.kind = info.kind == ModelKind::kStateDict ? "state_dict" : "safetensors";
  contents.only_tensors = true;
  contents.dtype = main_dtype(contents.tensors);
  contents.details = joined_details({contents.kind, contents.dtype});
  return contents;
}

}  // namespace tl

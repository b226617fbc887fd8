#include "archive/model_weights.h"

#include <charconv>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "archive/exported_program_reader.h"
#include "archive/model_kind.h"
#include "archive/tensor_walk.h"
#include "archive/unpickler.h"
#include "archive/zip_directory.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "tensor/decode.h"

namespace tl {
namespace {

/// False where a damaged file leaves a tensor without the bytes that it speaks of.
bool has_data(const HostTensor& tensor) { return fits_storage(tensor, tensor.storage.size()); }

std::optional<WeightValue> weight_of(const PickleValue& value) {
  if (const HostTensor* tensor = value.tensor())
    return has_data(*tensor) ? std::optional(WeightValue{*tensor, std::nullopt}) : std::nullopt;
  const PickleQuantisedTensor* quantised = value.quantised_tensor();
  if (quantised == nullptr || !has_data(quantised->int_repr)) return std::nullopt;
  if (quantised->per_channel && (!has_data(quantised->scales) || !has_data(quantised->zero_points)))
    return std::nullopt;
  Quantiser quantiser;
  if (quantised->per_channel) {
    quantiser = {all_doubles(quantised->scales), all_doubles(quantised->zero_points), quantised->axis};
  } else {
    quantiser = {{quantised->scale}, {static_cast<double>(quantised->zero_point)}, -1};
  }
  return WeightValue{quantised->int_repr, std::move(quantiser)};
}

/// `first` of `first.rest`; `path` becomes `rest`.
std::string_view take_step(std::string_view& path) {
  const auto dot = path.find('.');
  const auto step = path.substr(0, dot);
  path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  return step;
}

std::optional<std::size_t> position_of(std::string_view step) {
  std::size_t position = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), position);
  return error == std::errc() && end == step.data() + step.size() ? std::optional(position) : std::nullopt;
}

const PickleValue* item_of(const std::vector<PickleValue>& items, std::string_view step) {
  const auto position = position_of(step);
  return position && *position < items.size() ? &items[*position] : nullptr;
}

/// What stands at a path of attributes, keys and positions; nullptr if nothing does.
const PickleValue* value_at(const PickleValue& root, std::string_view path) {
  const PickleValue* value = &root;
  while (value != nullptr && !path.empty()) {
    if (const PickleObject* object = value->object()) {
      value = &object->state;  // an object takes no step of its own
    } else if (const PickleDict* dict = value->dict()) {
      value = dict->find(take_step(path));
    } else if (const PickleSequence* sequence = value->sequence()) {
      value = item_of(sequence->items, take_step(path));
    } else {
      value = nullptr;
    }
  }
  return value;
}

class ScriptWeights final : public WeightSource {
 public:
  explicit ScriptWeights(ZipDirectory zip) : zip_(std::move(zip)) {
    const UnpickleOptions options{.script_classes = true, .tensors_without_data = true};
    const auto root = archive_root(zip_);
    tree_ = read_torch_pickle(zip_, root + "data.pkl", root + "data/", options);
    if (const ZipEntry* entry = zip_.find(root + "constants.pkl"); entry != nullptr && entry->size > 0) {
      constants_ = read_torch_pickle(zip_, entry->name, root + "constants/", options);
    }
  }

  std::optional<WeightValue> find(std::string_view address) const override {
    constexpr std::string_view kConstants = "CONSTANTS.c";
    const PickleValue* value = address.starts_with(kConstants) ? value_at(constants_, address.substr(kConstants.size()))
                                                               : value_at(tree_, address);
    return value == nullptr ? std::nullopt : weight_of(*value);
  }

  std::vector<std::string> quantised() const override {
    constexpr std::size_t kMaxNameBytes = std::size_t{64} << 20;
    std::vector<std::string> addresses;
    std::size_t bytes = 0;
    for_each_tensor(tree_, "", [&](const std::string& path, const PickledTensor& tensor) {
      if (!is_quantised(tensor.dtype)) return;
      bytes += path.size();
      if (bytes > kMaxNameBytes) {
        throw Error(ErrorCode::kFileLimits,
                    "data.pkl: the names of its tensors take more than " + std::to_string(kMaxNameBytes) + " bytes");
      }
      addresses.push_back(path);
    });
    return addresses;
  }

 private:
  ZipDirectory zip_;
  PickleValue tree_;
  PickleValue constants_;
};

class ExportedWeights final : public WeightSource {
 public:
  explicit ExportedWeights(ZipDirectory zip) : zip_(std::move(zip)), program_(read_exported_program(zip_)) {
    for (std::size_t row = 0; row < program_.payloads.size(); ++row) rows_.emplace(program_.payloads[row].name, row);
  }

  std::optional<WeightValue> find(std::string_view address) const override {
    const auto row = rows_.find(address);
    if (row == rows_.end()) return std::nullopt;
    const ExportedPayload& payload = program_.payloads[row->second];
    if (payload.is_object || !payload.refusal.empty()) return std::nullopt;
    return WeightValue{payload.tensor, std::nullopt};
  }

  std::vector<std::string> quantised() const override { return {}; }

 private:
  ZipDirectory zip_;
  ExportedProgram program_;
  std::unordered_map<std::string_view, std::size_t> rows_;
};

}  // namespace

std::unique_ptr<WeightSource> read_model_weights(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  const auto info = inspect_model_file(path);
  if (const auto refusal = refusal_for(info)) throw *refusal;
  ZipDirectory zip(file->bytes(), path.filename().string(), file);
  if (info.kind == ModelKind::kExportedProgram) return std::make_unique<ExportedWeights>(std::move(zip));
  return std::make_unique<ScriptWeights>(std::move(zip));
}

}  // namespace tl

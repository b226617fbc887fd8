#include "engine/stated_inputs.h"

#include "archive/unpickler.h"
#include "archive/zip_directory.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "engine/given_inputs.h"

namespace tl {
namespace {

void append(const PickleValue& value, const std::string& path, std::vector<StatedInput>& stated) {
  if (const auto* tensor = value.tensor()) {
    stated.push_back({path, tensor->dtype, tensor->sizes});
  } else if (const auto* sequence = value.sequence()) {
    for (std::size_t i = 0; i < sequence->items.size(); ++i) {
      append(sequence->items[i], path + "." + std::to_string(i), stated);
    }
  } else if (const auto* dict = value.dict()) {
    for (const auto& [key, element] : dict->items) {
      const auto* text = key.string();
      const auto* number = key.integer();
      if (text != nullptr || number != nullptr) {
        append(element, path + "." + (text != nullptr ? *text : std::to_string(*number)), stated);
      }
    }
  }
}

std::vector<StatedInput> read(const std::filesystem::path& model, const Signature& signature) {
  const auto file = MappedFile::open(model);
  const ZipDirectory zip(file->bytes(), model.string(), file);
  const auto root = archive_root(zip);
  const auto pickle = root + "traced_inputs.pkl";
  if (zip.find(pickle) == nullptr) return {};
  const auto value = read_torch_pickle(zip, pickle, root + "traced_inputs/", {.tensors_without_data = true});
  const auto* methods = value.dict();
  const auto* inputs = methods == nullptr ? nullptr : methods->find(signature.method);
  const auto* values = inputs == nullptr ? nullptr : inputs->sequence();
  if (values == nullptr || values->items.size() != signature.arguments.size()) return {};
  std::vector<StatedInput> stated;
  for (std::size_t i = 0; i < values->items.size(); ++i) append(values->items[i], signature.arguments[i].name, stated);
  return stated;
}

}  // namespace

std::vector<StatedInput> read_stated_inputs(const std::filesystem::path& model, const Signature& signature) {
  try {
    return read(model, signature);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace tl

#include "archive/exported_payloads.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <unordered_map>
#include <utility>

#include "archive/byte_reader.h"
#include "archive/entry_name.h"
#include "archive/exported_json.h"
#include "archive/limits.h"
#include "archive/nested_archive.h"
#include "archive/unpickler.h"

namespace tl {
namespace {

JsonLimits config_limits() {
  JsonLimits limits;
  limits.bytes = limits::kProgramJsonBytes;
  limits.tokens = limits::kProgramJsonTokens;
  return limits;
}

std::vector<std::int64_t> numbers_of(const ExportedPlace& place, const std::vector<ExportedSymInt>& symbols) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(symbols.size());
  for (const ExportedSymInt& symbol : symbols) {
    if (!symbol.is_number()) place.damaged("its size " + quoted_name(symbol.expression) + " is no number");
    numbers.push_back(*symbol.value);
  }
  return numbers;
}

/// `f32[2,3] with strides [3,1] at offset 0`
std::string shown(const HostTensor& tensor) {
  const auto list = [](const std::vector<std::int64_t>& numbers) {
    constexpr std::size_t kShown = 8;
    std::string text = "[";
    for (std::size_t i = 0; i < std::min(numbers.size(), kShown); ++i) {
      text += (i == 0 ? "" : ",") + std::to_string(numbers[i]);
    }
    return text + (numbers.size() > kShown ? ",…]" : "]");
  };
  return std::string(short_name(tensor.dtype)) + list(tensor.sizes) + " with strides " + list(tensor.strides) +
         " at offset " + std::to_string(tensor.offset);
}

/// Reads the entries of one folder, each once.
class PayloadReader {
 public:
  PayloadReader(const ZipDirectory& zip, std::string folder) : zip_(zip), folder_(std::move(folder)) {}

  void read(const std::string& config, std::vector<ExportedPayload>& payloads) {
    const ZipEntry& entry = zip_.at(folder_ + config);
    place_.where = zip_.file_name() + ": " + entry.name;
    if (entry.size > limits::kProgramJsonBytes) {
      place_.fail(ErrorCode::kFileLimits, "has " + std::to_string(entry.size) + " bytes, the limit is " +
                                              std::to_string(limits::kProgramJsonBytes));
    }
    const std::string text = zip_.read_text(entry);
    const JsonTape tape(text, place_.where, config_limits());
    const JsonRef members = expect_object(place_, required(place_, tape.root(), "config"), "config");
    payloads.reserve(payloads.size() + members.size());
    for (const JsonMember member : members.members()) {
      place_.part = "payload";
      place_.part_name = member.key;
      payloads.push_back(payload(member.key, member.value));
      place_.part = {};
      place_.part_name = {};
    }
  }

 private:
  struct Storage {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
    std::uint64_t offset = 0;  ///< in the file; 0 if copied
  };

  ExportedPayload payload(std::string_view name, JsonRef json) {
    ExportedPayload result;
    result.name = name;
    const std::string_view path = expect_string(place_, required(place_, json, "path_name"), "path_name");
    result.entry = folder_ + std::string(path);
    if (const std::string_view reason = unsafe_name_reason(path); !reason.empty()) {
      place_.fail(ErrorCode::kFileHostile, "its entry " + quoted_name(path) + ": " + std::string(reason));
    }
    result.is_parameter = expect_bool(place_, required(place_, json, "is_param"), "is_param");
    const bool pickled = expect_bool(place_, required(place_, json, "use_pickle"), "use_pickle");
    const JsonRef meta = optional_member(place_, json, "tensor_meta");
    result.is_object = !meta;
    if (meta) result.meta = exported_tensor_meta(place_, meta);
    const ZipEntry* entry = zip_.find(result.entry);
    if (!entry) place_.damaged("its entry " + quoted_name(result.entry) + " is not in the file");
    if (result.is_object) {
      if (!pickled) place_.damaged("a payload without a pickle and without a description of its tensor");
      zip_.verify_crc(*entry);
    } else if (pickled) {
      read_pickled(*entry, result);
    } else {
      read_raw(*entry, result);
    }
    return result;
  }

  void read_raw(const ZipEntry& entry, ExportedPayload& result) {
    const ExportedTensorMeta& meta = result.meta;
    if (meta.layout != ExportedLayout::kStrided) {
      result.refusal = "a sparse tensor saved as raw bytes";
      return;
    }
    HostTensor& tensor = result.tensor;
    tensor.dtype = meta.dtype;
    tensor.sizes = numbers_of(place_, meta.sizes);
    tensor.strides = numbers_of(place_, meta.strides);
    tensor.offset = numbers_of(place_, {meta.offset}).front();
    const Storage& storage = load(entry, tensor);
    tensor.storage = storage.bytes;
    tensor.owner = storage.owner;
    result.entry_offset = storage.offset;
    require_fit(entry, tensor);
  }

  void require_fit(const ZipEntry& entry, const HostTensor& tensor) {
    const std::uint64_t item = item_bytes(tensor.dtype);
    const std::uint64_t held = tensor.storage.size();
    if (!fits_storage(tensor, held)) {
      place_.damaged("its tensor " + shown(tensor) + " reaches beyond its entry " + quoted_name(entry.name) + " of " +
                     std::to_string(held) + " bytes");
    }
    const auto numel = static_cast<std::uint64_t>(tensor.numel());
    if (held % item != 0) {
      place_.damaged("its entry " + quoted_name(entry.name) + " has " + std::to_string(held) +
                     " bytes, no multiple of the " + std::to_string(item) + " of an element");
    }
    const std::uint64_t allowed = std::max(limits::kExpandFreeBytes, limits::kExpandRatio * held);
    if (numel > allowed / item) {
      place_.fail(ErrorCode::kFileLimits,
                  "its tensor " + shown(tensor) + " is expanded from a storage of " + std::to_string(held) + " bytes");
    }
  }

  void read_pickled(const ZipEntry& entry, ExportedPayload& result) {
    const auto refuse = [&](const std::string& what) { result.refusal = "a pickled tensor subclass: " + what; };
    try {
      const PickleValue value = read_nested_pickle(zip_, entry);
      if (value.tensor()) {
        result.tensor = *value.tensor();
      } else {
        refuse("the pickle holds a " + std::string(type_name(value)));
      }
    } catch (const Error& error) {
      // A file that contradicts itself stays one; a class that is not on the list concerns this payload alone.
      if (error.code != ErrorCode::kUnsafePickle && error.code != ErrorCode::kUnsupportedKind) throw;
      refuse(error.message);
    }
  }

  /// A tensor that was fake when it was saved has an entry without bytes, and torch.export.load takes zeros for it.
  /// They cost no memory until they are written to.
  Storage zeros_for(const HostTensor& tensor) {
    if (!fits_storage(tensor, zeros_left_) || tensor.numel() == 0) return {};
    std::uint64_t last = static_cast<std::uint64_t>(tensor.offset);
    for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
      last += static_cast<std::uint64_t>(tensor.sizes[i] - 1) * static_cast<std::uint64_t>(tensor.strides[i]);
    }
    const std::size_t size = static_cast<std::size_t>(last + 1) * item_bytes(tensor.dtype);
    const std::shared_ptr<void> block(std::calloc(size, 1), &std::free);
    if (!block) throw std::bad_alloc();
    zeros_left_ -= size;
    return {{static_cast<const std::byte*>(block.get()), size}, block, 0};
  }

  // Elements are read in place, so what is not aligned for the widest of them is copied, like what is compressed.
  const Storage& load(const ZipEntry& entry, const HostTensor& tensor) {
    const auto [slot, fresh] = storages_.try_emplace(entry.name);
    Storage& storage = slot->second;
    if (!fresh) return storage;
    if (entry.size == 0) {
      storage = zeros_for(tensor);
      return storage;
    }
    if (zip_.owner() && entry.method == ZipMethod::kStored) {
      const std::span<const std::byte> bytes = zip_.stored(entry);
      if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::max_align_t) == 0) {
        zip_.verify_crc(entry);
        storage = {bytes, zip_.owner(), entry.data_offset};
        return storage;
      }
    }
    const auto copy = std::make_shared<const std::vector<std::byte>>(zip_.read(entry));
    storage = {*copy, copy, 0};
    return storage;
  }

  const ZipDirectory& zip_;
  std::string folder_;
  ExportedPlace place_;
  std::unordered_map<std::string, Storage> storages_;
  std::uint64_t zeros_left_ = limits::kExpandFreeBytes;  // of all entries without bytes together
};

ExportedTensorMeta meta_of(const HostTensor& tensor) {
  ExportedTensorMeta meta;
  meta.dtype = tensor.dtype;
  for (const std::int64_t size : tensor.sizes) meta.sizes.push_back({{}, size});
  for (const std::int64_t stride : tensor.strides) meta.strides.push_back({{}, stride});
  meta.offset = {{}, tensor.offset};
  meta.device = {"cpu", std::nullopt};
  return meta;
}

}  // namespace

void read_configured_payloads(const ZipDirectory& zip, const std::string& folder, const std::string& config,
                              std::vector<ExportedPayload>& payloads) {
  PayloadReader(zip, folder).read(config, payloads);
}

PickleValue read_nested_pickle(const ZipDirectory& zip, const ZipEntry& entry, const UnpickleOptions& options) {
  const NestedArchive nested(zip, entry);
  const std::string root = archive_root(nested.zip());
  return read_torch_pickle(nested.zip(), root + "data.pkl", root + "data/", options);
}

void read_pickled_payloads(const ZipDirectory& zip, const std::string& name, std::vector<ExportedPayload>& payloads) {
  const ZipEntry& entry = zip.at(name);
  if (entry.size == 0) return;
  const NestedArchive nested(zip, entry);
  const std::string root = archive_root(nested.zip());
  const PickleValue value = read_torch_pickle(nested.zip(), root + "data.pkl", root + "data/");
  const PickleDict* dict = value.dict();
  const std::string where = zip.file_name() + ": " + name;
  if (!dict)
    throw Error(ErrorCode::kFileDamaged, where + ": holds a " + std::string(type_name(value)) + ", not a dict");
  std::unordered_map<const std::byte*, std::string> storages;  // by where their bytes lie, copied or not
  for (const auto& [key, item] : dict->items) {
    if (!key.string()) {
      throw Error(ErrorCode::kFileDamaged, where + ": a key is a " + std::string(type_name(key)) + ", not a name");
    }
    ExportedPayload payload;
    payload.name = *key.string();
    payload.entry = name + '#' + std::to_string(payloads.size());
    if (const HostTensor* tensor = item.tensor()) {
      payload.tensor = *tensor;
      payload.meta = meta_of(*tensor);
      if (!tensor->storage.empty()) {
        payload.entry = storages.try_emplace(tensor->storage.data(), payload.entry).first->second;
        payload.entry_offset = nested.offset_of(tensor->storage);
      }
    } else {
      payload.is_object = true;
      payload.refusal = "a " + std::string(type_name(item)) + " among the tensors";
    }
    payloads.push_back(std::move(payload));
  }
}

}  // namespace tl

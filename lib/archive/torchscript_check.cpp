#include "archive/torchscript_check.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "archive/entry_name.h"
#include "archive/limits.h"
#include "archive/unpickler.h"
#include "archive/zip_directory.h"
#include "core/error.h"
#include "tensor/strided_copy.h"

namespace tl {
namespace {

constexpr std::string_view kPositionsEnding = ".debug_pkl";

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

bool is_positions(const ZipEntry& entry) { return lower(entry.name).ends_with(kPositionsEnding); }

/// The entry of that name. LibTorch finds entries without regard to case, so one in another case would be read unseen.
const ZipEntry* find_entry(const ZipDirectory& zip, const std::string& name) {
  const std::string wanted = lower(name);
  for (const ZipEntry& entry : zip.entries()) {
    if (entry.name.size() != name.size() || lower(entry.name) != wanted) continue;
    if (entry.name == name) return &entry;
    throw Error(ErrorCode::kFileHostile, zip.file_name() + ": entry " + quoted_name(entry.name) + " is " +
                                             quoted_name(name) + " but for case, which LibTorch ignores");
  }
  return nullptr;
}

enum class Storages { kRequired, kMayBeAbsent };

/// What a reader of values may leave to its user's trust has no business in a TorchScript file.
PickleValue without_foreign_names(const std::function<PickleValue()>& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code != ErrorCode::kUnsafePickle) throw;
    throw Error(ErrorCode::kFileHostile, error.message, "", "no TorchScript file has that; nothing was executed");
  }
}

/// The value of one pickle of the archive; storages are looked up below `folder`.
PickleValue read_pickle(const ZipDirectory& zip, const std::string& entry, const std::string& folder, Storages storages,
                        bool sizes_only) {
  const UnpickleOptions options{
      .script_classes = true, .tensors_without_data = storages == Storages::kMayBeAbsent, .sizes_only = sizes_only};
  return without_foreign_names([&] { return read_torch_pickle(zip, entry, folder, options); });
}

/// Calls `visit` for every sparse tensor below `value`; nesting was bounded by the unpickler.
void for_each_sparse(const PickleValue& value, const std::function<void(const PickleSparseTensor&)>& visit) {
  if (const PickleSparseTensor* sparse = value.sparse_tensor()) return visit(*sparse);
  if (const PickleSequence* sequence = value.sequence()) {
    for (const PickleValue& item : sequence->items) for_each_sparse(item, visit);
  } else if (const PickleDict* dict = value.dict()) {
    for (const auto& [key, item] : dict->items) for_each_sparse(item, visit);
  } else if (const PickleObject* object = value.object()) {
    for (const PickleValue& item : object->args) for_each_sparse(item, visit);
    for_each_sparse(object->state, visit);
  }
}

/// What LibTorch does not look at when it puts a sparse tensor together, although its kernels go by it.
class SparseCheck {
 public:
  explicit SparseCheck(std::string where) : where_(std::move(where)) {}

  void check(const PickleSparseTensor& tensor) const {
    if (tensor.layout == "sparse_coo") return check_coo(tensor);
    check_compressed(tensor);
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(ErrorCode::kFileDamaged, where_ + ": a sparse tensor " + what);
  }

  std::vector<std::int64_t> numbers(const HostTensor& tensor) const {
    if (tensor.dtype != DType::kI64 && tensor.dtype != DType::kI32) damaged("whose indices are no integers");
    const HostTensor flat = to_contiguous(tensor);
    std::vector<std::int64_t> result(static_cast<std::size_t>(flat.numel()));
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (tensor.dtype == DType::kI64) {
        std::memcpy(&result[i], flat.storage.data() + i * sizeof(std::int64_t), sizeof(std::int64_t));
      } else {
        std::int32_t narrow = 0;
        std::memcpy(&narrow, flat.storage.data() + i * sizeof narrow, sizeof narrow);
        result[i] = narrow;
      }
    }
    return result;
  }

  void check_bounds(std::span<const std::int64_t> indices, std::int64_t size) const {
    const auto outside = std::ranges::find_if(indices, [&](std::int64_t i) { return i < 0 || i >= size; });
    if (outside != indices.end()) {
      damaged("with the index " + std::to_string(*outside) + " in a dimension of " + std::to_string(size));
    }
  }

  // indices [sparse dims, nnz], values [nnz, dense dims …].
  void check_coo(const PickleSparseTensor& tensor) const {
    const std::vector<std::int64_t>& shape = tensor.indices.sizes;
    if (shape.size() != 2 || tensor.values.sizes.empty() || tensor.values.sizes[0] != shape[1]) {
      damaged("whose indices and values do not fit");
    }
    const auto sparse_dims = static_cast<std::size_t>(shape[0]);
    if (sparse_dims + tensor.values.sizes.size() - 1 != tensor.sizes.size() ||
        !std::equal(tensor.values.sizes.begin() + 1, tensor.values.sizes.end(),
                    tensor.sizes.end() - static_cast<std::ptrdiff_t>(tensor.values.sizes.size() - 1))) {
      damaged("whose values do not have its shape");
    }
    const std::vector<std::int64_t> indices = numbers(tensor.indices);
    const auto count = static_cast<std::size_t>(shape[1]);
    for (std::size_t dim = 0; dim < sparse_dims; ++dim) {
      check_bounds(std::span(indices).subspan(dim * count, count), tensor.sizes[dim]);
    }
  }

  // csr, csc: compressed [… rows + 1], indices [… nnz]; bsr, bsc: the same in blocks, values [… nnz, block, block].
  void check_compressed(const PickleSparseTensor& tensor) const {
    if (tensor.compressed.sizes.size() != 1 || tensor.indices.sizes.size() != 1 || tensor.sizes.size() < 2) {
      damaged("in batches, which are not read");
    }
    const std::vector<std::int64_t> compressed = numbers(tensor.compressed);
    const std::vector<std::int64_t> indices = numbers(tensor.indices);
    const auto count = static_cast<std::int64_t>(indices.size());
    if (tensor.values.sizes.empty() || tensor.values.sizes[0] != count) damaged("whose indices and values do not fit");
    const bool blocks = tensor.layout == "sparse_bsr" || tensor.layout == "sparse_bsc";
    if (blocks && (tensor.values.sizes.size() < 3 || tensor.values.sizes[1] <= 0 || tensor.values.sizes[2] <= 0)) {
      damaged("without blocks");
    }
    const bool by_rows = tensor.layout == "sparse_csr" || tensor.layout == "sparse_bsr";
    const std::int64_t rows = tensor.sizes[0] / (blocks ? tensor.values.sizes[1] : 1);
    const std::int64_t columns = tensor.sizes[1] / (blocks ? tensor.values.sizes[2] : 1);
    const std::int64_t lines = by_rows ? rows : columns;
    if (static_cast<std::int64_t>(compressed.size()) != lines + 1 || compressed.front() != 0 ||
        compressed.back() != count || !std::ranges::is_sorted(compressed)) {
      damaged("whose compressed indices do not rise from 0 to " + std::to_string(count));
    }
    check_bounds(indices, by_rows ? columns : rows);
  }

  std::string where_;
};

void check_sparse(const ZipDirectory& zip, const std::string& entry, const std::string& folder, Storages storages) {
  const SparseCheck check(zip.file_name() + ": " + entry);
  for_each_sparse(read_pickle(zip, entry, folder, storages, false), [&](const PickleSparseTensor& sparse) {
    if (!sparse.values.storage.empty() || sparse.values.numel() == 0) check.check(sparse);
  });
}

/// Reads `root/NAME.pkl` with storages in `root/NAME/`. What sparse tensors hold is looked at where there are some.
PickleValue check_pickle(const ZipDirectory& zip, const std::string& root, const std::string& name,
                         Storages storages = Storages::kRequired) {
  const std::string entry = root + name + ".pkl";
  const std::string folder = root + name + "/";
  PickleValue value = read_pickle(zip, entry, folder, storages, true);
  bool sparse = false;
  for_each_sparse(value, [&](const PickleSparseTensor&) { sparse = true; });
  if (sparse) check_sparse(zip, entry, folder, storages);
  return value;
}

[[noreturn]] void wrong_root(const ZipDirectory& zip, const std::string& entry, const PickleValue& value,
                             std::string_view expected) {
  throw Error(ErrorCode::kFileDamaged, zip.file_name() + ": " + entry + ": holds a " + std::string(type_name(value)) +
                                           " where a TorchScript file has " + std::string(expected));
}

/// The value of a `.debug_pkl`: (offset, ((text, file, line), start, end), tag) for pieces of a source, in a tuple; the
/// newer form ("FORMAT_WITH_STRING_TABLE", strings, that tuple) has texts as lists of indices into the strings.
/// LibTorch goes by these numbers unseen (torch/csrc/jit/serialization/source_range_serialization.cpp).
class PositionsCheck {
 public:
  explicit PositionsCheck(std::string where) : where_(std::move(where)) {}

  void check(const PickleValue& root) {
    const std::vector<PickleValue>* items = &tuple(root);
    if (items->empty()) damaged("an empty tuple");
    const std::string* format = items->front().string();
    if (format != nullptr && *format == "FORMAT_WITH_STRING_TABLE") {
      if (items->size() < 3) damaged("a table without rows");
      strings_ = &tuple((*items)[1]);
      if (strings_->empty()) strings_ = nullptr;
      items = &tuple((*items)[2]);
    }
    for (const PickleValue& row : *items) check_row(row);
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(ErrorCode::kFileDamaged, where_ + ": source positions with " + what);
  }

  const std::vector<PickleValue>& tuple(const PickleValue& value) const {
    const PickleSequence* sequence = value.sequence();
    if (sequence == nullptr || !sequence->is_tuple) {
      damaged("a " + std::string(type_name(value)) + " where a tuple belongs");
    }
    return sequence->items;
  }

  const std::vector<PickleValue>& tuple(const PickleValue& value, std::size_t least) const {
    const std::vector<PickleValue>& items = tuple(value);
    if (items.size() < least) damaged("a tuple of " + std::to_string(items.size()) + " values");
    return items;
  }

  std::int64_t number(const PickleValue& value) const {
    if (value.integer() == nullptr) damaged("a " + std::string(type_name(value)) + " where a number belongs");
    return *value.integer();
  }

  void check_row(const PickleValue& row) {
    const std::vector<PickleValue>& items = tuple(row, 2);
    number(items[0]);
    const std::vector<PickleValue>& range = tuple(items[1], 3);
    const std::int64_t length = source_length(range[0]);
    const std::int64_t start = number(range[1]);
    const std::int64_t end = number(range[2]);
    // A node without a source has the range 0 to 1 in an empty text.
    if (start < 0 || start > end || end > std::max<std::int64_t>(length, 1)) {
      damaged("the range " + std::to_string(start) + " to " + std::to_string(end) + " in a text of " +
              std::to_string(length) + " bytes");
    }
  }

  /// Bytes of a source's text; sources that rows share are looked at once.
  std::int64_t source_length(const PickleValue& source) {
    const std::vector<PickleValue>& items = tuple(source, 3);
    const auto [known, fresh] = lengths_.try_emplace(&items, 0);
    if (!fresh) return known->second;
    number(items[2]);
    std::uint64_t length = 0;
    if (strings_ == nullptr) {
      length = text(items[0]).size();
      if (!items[1].is_none()) text(items[1]);
    } else {
      indexed(items[1]);
      const PickleSequence* pieces = items[0].sequence();
      if (pieces == nullptr) damaged("a text that is a " + std::string(type_name(items[0])));
      for (const PickleValue& piece : pieces->items) {
        const std::string& line = indexed(piece);
        // LibTorch counts lines by pieces.
        if (&piece != &pieces->items.back() && (line.empty() || line.find('\n') != line.size() - 1)) {
          damaged("a piece of text that is no line");
        }
        length += line.size();
      }
    }
    total_ += length;
    if (total_ > limits::kPickleBytes) {
      throw Error(ErrorCode::kFileLimits, where_ + ": source positions make more than " +
                                              std::to_string(limits::kPickleBytes) + " bytes out of repeated texts");
    }
    known->second = static_cast<std::int64_t>(length);
    return known->second;
  }

  const std::string& text(const PickleValue& value) const {
    if (value.string() == nullptr) damaged("a " + std::string(type_name(value)) + " where a text belongs");
    return *value.string();
  }

  const std::string& indexed(const PickleValue& value) const {
    const std::int64_t index = number(value);
    if (index < 0 || static_cast<std::uint64_t>(index) >= strings_->size()) {
      damaged("text " + std::to_string(index) + " of " + std::to_string(strings_->size()));
    }
    return text((*strings_)[static_cast<std::size_t>(index)]);
  }

  std::string where_;
  const std::vector<PickleValue>* strings_ = nullptr;  // null: texts stand in the rows
  std::unordered_map<const void*, std::int64_t> lengths_;
  std::uint64_t total_ = 0;
};

void check_positions(const ZipDirectory& zip, const ZipEntry& entry) {
  if (entry.size > limits::kPickleBytes) {
    throw Error(ErrorCode::kFileLimits, zip.file_name() + ": " + quoted_name(entry.name) + " has " +
                                            std::to_string(entry.size) + " bytes, the limit is " +
                                            std::to_string(limits::kPickleBytes));
  }
  const std::string where = zip.file_name() + ": " + entry.name;
  PositionsCheck(where).check(without_foreign_names([&] { return unpickle(zip.read(entry), where); }));
}

}  // namespace

bool has_source_positions(const ZipDirectory& zip) { return std::ranges::any_of(zip.entries(), is_positions); }

void check_torchscript(const ZipDirectory& zip) {
  zip.verify_crc();
  check_torchscript_structure(zip);
}

void check_torchscript_structure(const ZipDirectory& zip) {
  const std::string root = archive_root(zip);
  const PickleValue module = check_pickle(zip, root, "data");
  if (!module.object() || !module.object()->class_name.starts_with("__torch__.")) {
    wrong_root(zip, root + "data.pkl", module, "an object of a TorchScript class");
  }
  if (find_entry(zip, root + "constants.pkl")) {
    const PickleValue constants = check_pickle(zip, root, "constants");
    if (!constants.sequence() || !constants.sequence()->is_tuple) {
      wrong_root(zip, root + "constants.pkl", constants, "a tuple");
    }
  }
  if (find_entry(zip, root + "traced_inputs.pkl")) check_pickle(zip, root, "traced_inputs", Storages::kMayBeAbsent);
  for (const ZipEntry& entry : zip.entries()) {
    if (is_positions(entry)) check_positions(zip, entry);
  }
}

}  // namespace tl

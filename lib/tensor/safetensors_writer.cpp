#include "tensor/safetensors_writer.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <future>
#include <utility>

#include "core/digest.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "core/utf8.h"
#include "tensor/safetensors_header.h"
#include "tensor/strided_copy.h"

namespace tl {
namespace {

constexpr std::size_t kLengthBytes = 8;
/// Where the data may begin: a multiple of this, so that the first tensor is aligned in memory; the format asks for 8.
constexpr std::size_t kAlignment = 64;
/// Bytes copied at once, out of tensors with gaps and where data is moved.
constexpr std::size_t kChunk = std::size_t{1} << 20;

/// Read piece by piece: mapped pages of a large file would count as memory of the process.
std::string digest_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> chunk(kChunk);
  Digester digester;
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    digester.update(std::as_bytes(std::span(chunk.data(), static_cast<std::size_t>(file.gcount()))));
  }
  if (file.bad() || !file.eof()) throw Error(ErrorCode::kOutputFailed, "cannot read " + path.string() + " back");
  return digester.hex();
}

/// Start of the data behind a header of at least `header_bytes`.
std::size_t data_start(std::size_t header_bytes) {
  return (kLengthBytes + header_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::size_t SafetensorsWriter::header_space(std::size_t tensors, std::size_t name_bytes) {
  constexpr std::size_t kBytesPerTensor = 128;
  return 64 + tensors * kBytesPerTensor + name_bytes;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::size_t reserved_header_bytes)
    : file_(path),
      data_start_(data_start(std::min(reserved_header_bytes, SafetensorsFile::kMaxHeaderBytes - kAlignment))) {
  file_.append(std::string(data_start_, ' '));
}

void SafetensorsWriter::add(std::string_view name, const HostTensor& tensor) {
  check_readable(tensor);
  check_name(name);
  add_entry(name, tensor.dtype, tensor.sizes, tensor.nbytes());
  append_elements(tensor);
}

void SafetensorsWriter::add_unnamed(const HostTensor& tensor) {
  check_readable(tensor);
  add_entry({}, tensor.dtype, tensor.sizes, tensor.nbytes());
  append_elements(tensor);
}

void SafetensorsWriter::append_elements(const HostTensor& tensor) {
  if (tensor.is_contiguous()) {
    file_.append(to_contiguous(tensor).storage);
    return;
  }
  const auto block = static_cast<std::int64_t>(kChunk / item_bytes(tensor.dtype));
  for_each_packed_block(tensor, block, [&](std::int64_t, std::span<const std::byte> packed) { file_.append(packed); });
}

void SafetensorsWriter::add_raw(std::string_view name, DType dtype, std::span<const std::int64_t> sizes,
                                std::span<const std::byte> bytes) {
  check_name(name);
  add_unnamed_raw(dtype, sizes, bytes);
  entries_.back().name = name;
}

void SafetensorsWriter::add_unnamed_raw(DType dtype, std::span<const std::int64_t> sizes,
                                        std::span<const std::byte> bytes) {
  std::size_t needed = 0;
  const bool overflow =
      __builtin_mul_overflow(static_cast<std::size_t>(checked_numel(sizes)), item_bytes(dtype), &needed);
  TL_CHECK(!overflow && needed == bytes.size(), "packed elements are as many as their shape says");
  add_entry({}, dtype, sizes, bytes.size());
  file_.append(bytes);
}

void SafetensorsWriter::check_name(std::string_view name) {
  const auto refuse = [&](const std::string& reason) {
    throw Error(ErrorCode::kOutputFailed,
                "cannot write " + file_.path().string() + ": tensor " + shown_tensor(name) + " " + reason);
  };
  if (!is_utf8(name)) refuse("has a name that is no UTF-8");
  if (name == kSafetensorsMetadataKey) refuse("has a name that the format reserves");
  if (!names_.emplace(name).second) refuse("is written twice");
}

void SafetensorsWriter::add_entry(std::string_view name, DType dtype, std::span<const std::int64_t> sizes,
                                  std::size_t bytes) {
  TL_CHECK(!dtype_info(dtype).safetensors_name.empty(), "only dtypes of the format are added to a safetensors file");
  entries_.push_back({.name = std::string(name),
                      .dtype = dtype,
                      .sizes = {sizes.begin(), sizes.end()},
                      .begin = data_bytes_,
                      .end = data_bytes_ + bytes});
  data_bytes_ += bytes;
}

void SafetensorsWriter::move_data(std::uint64_t by) {
  file_.append(std::string(by, ' '));
  file_.flush();
  const auto mapped = MappedFile::open(file_.path());
  const std::span<const std::byte> data = mapped->bytes().subspan(data_start_, data_bytes_);
  std::vector<std::byte> chunk;
  for (std::size_t end = data.size(); end > 0;) {
    const std::size_t begin = end - std::min(end, kChunk);
    chunk.assign(data.begin() + static_cast<std::ptrdiff_t>(begin), data.begin() + static_cast<std::ptrdiff_t>(end));
    file_.write_at(data_start_ + begin + by, chunk);
    end = begin;
  }
  data_start_ += by;
}

SafetensorsWriter::Written SafetensorsWriter::finish_named(std::vector<std::string> names) {
  TL_CHECK(names.size() == entries_.size(), "every tensor gets a name");
  names_.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    check_name(names[i]);
    entries_[i].name = std::move(names[i]);
  }
  return finish(true);
}

SafetensorsWriter::Written SafetensorsWriter::finish(bool with_digest) {
  std::string header = format_safetensors_header({.entries = std::move(entries_), .metadata = metadata_});
  if (header.size() > SafetensorsFile::kMaxHeaderBytes - kAlignment) {
    throw Error(ErrorCode::kOutputFailed, "cannot write " + file_.path().string() + ": its header of " +
                                              std::to_string(header.size()) + " bytes exceeds the format's limit of " +
                                              std::to_string(SafetensorsFile::kMaxHeaderBytes));
  }
  if (const std::size_t needed = data_start(header.size()); needed > data_start_) move_data(needed - data_start_);
  header.resize(data_start_ - kLengthBytes, ' ');
  std::array<std::byte, kLengthBytes> length;
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<std::byte>(header.size() >> (8 * i) & 0xff);
  file_.write_at(0, length);
  file_.write_at(kLengthBytes, std::as_bytes(std::span(header)));
  Written written{.bytes = file_.tell(), .digest = {}};
  // The disk is slow and the hash is fast: they run side by side.
  std::future<std::string> digest;
  if (with_digest) {
    file_.flush();  // the hash reads the file, not our buffer
    digest = std::async(std::launch::async, [path = file_.path()] { return digest_of_file(path); });
  }
  file_.close();
  if (with_digest) written.digest = digest.get();
  return written;
}

}  // namespace tl

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/mapped_file.h"
#include "tensor/safetensors.h"
#include "tensor/safetensors_header.h"

namespace tl {
namespace {

constexpr std::size_t kLengthBytes = 8;

[[noreturn]] void fail(ErrorCode code, std::string_view shown_name, const std::string& text) {
  throw Error(code, std::string(shown_name) + ": " + text);
}

/// The header's text, its length checked against the file and the limit.
std::string_view header_text(std::span<const std::byte> bytes, std::string_view shown_name) {
  if (bytes.size() < kLengthBytes) {
    fail(ErrorCode::kFileDamaged, shown_name,
         "has " + std::to_string(bytes.size()) + " bytes, a safetensors file has at least 8");
  }
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  const std::size_t rest = bytes.size() - kLengthBytes;
  if (length > rest) {
    fail(ErrorCode::kFileDamaged, shown_name,
         "claims a header of " + std::to_string(length) + " bytes, but only " + std::to_string(rest) + " follow");
  }
  if (length > SafetensorsFile::kMaxHeaderBytes) {
    fail(ErrorCode::kFileLimits, shown_name,
         "has a header of " + std::to_string(length) + " bytes, above the limit of " +
             std::to_string(SafetensorsFile::kMaxHeaderBytes));
  }
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, static_cast<std::size_t>(length)};
}

std::string range_text(const SafetensorsEntry& entry) {
  return "[" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + ")";
}

/// Holds one entry against the bytes of data present and against its own shape.
void check_entry(const SafetensorsEntry& entry, std::size_t data_bytes, std::string_view shown_name) {
  const auto fail_here = [&](ErrorCode code, const std::string& text) {
    fail(code, shown_name, "tensor " + shown_tensor(entry.name) + ": " + text);
  };
  if (entry.begin > entry.end) {
    fail_here(ErrorCode::kFileDamaged, "bytes " + range_text(entry) + " end before they begin");
  }
  if (entry.end > data_bytes) {
    fail_here(ErrorCode::kFileDamaged,
              "bytes " + range_text(entry) + " reach beyond the " + std::to_string(data_bytes) + " bytes of data");
  }
  std::int64_t elements = 0;
  try {
    elements = checked_numel(entry.sizes);
  } catch (const Error& error) {
    fail_here(error.code, error.message);
  }
  const std::size_t claimed = entry.end - entry.begin;
  std::size_t needed = 0;
  const bool overflow = __builtin_mul_overflow(static_cast<std::size_t>(elements), item_bytes(entry.dtype), &needed);
  if (overflow || needed != claimed) {
    fail_here(ErrorCode::kFileDamaged,
              std::to_string(elements) + " elements of " + std::string(short_name(entry.dtype)) + " need " +
                  (overflow ? "more than 2^64" : std::to_string(needed)) + " bytes, its range " + range_text(entry) +
                  " has " + std::to_string(claimed));
  }
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return from_bytes(file->bytes(), file, path.string());
}

SafetensorsFile SafetensorsFile::from_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                            std::string_view shown_name) {
  const std::string_view text = header_text(bytes, shown_name);
  SafetensorsHeader header = parse_safetensors_header(text, shown_name);
  SafetensorsFile file;
  file.entries_ = std::move(header.entries);
  file.metadata_ = std::move(header.metadata);
  file.data_ = bytes.subspan(kLengthBytes + text.size());
  file.owner_ = std::move(owner);
  file.by_name_.reserve(file.entries_.size());
  for (std::size_t i = 0; i < file.entries_.size(); ++i) {
    if (!file.by_name_.emplace(file.entries_[i].name, i).second) {
      fail(ErrorCode::kFileHostile, shown_name, "the name " + shown_tensor(file.entries_[i].name) + " appears twice");
    }
  }
  file.check_layout(shown_name);
  return file;
}

void SafetensorsFile::check_layout(std::string_view shown_name) const {
  for (const SafetensorsEntry& entry : entries_) check_entry(entry, data_.size(), shown_name);
  std::vector<std::size_t> order(entries_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(entries_[i].begin, entries_[i].end); });
  std::size_t covered = 0;
  for (const std::size_t i : order) {
    const SafetensorsEntry& entry = entries_[i];
    if (entry.begin != covered) {
      const bool overlap = entry.begin < covered;
      fail(overlap ? ErrorCode::kFileHostile : ErrorCode::kFileDamaged, shown_name,
           "tensor " + shown_tensor(entry.name) + " begins at byte " + std::to_string(entry.begin) +
               " of the data, the " + (overlap ? "one before it ends at " : "bytes before it are covered up to ") +
               std::to_string(covered));
    }
    covered = entry.end;
  }
  if (covered != data_.size()) {
    fail(ErrorCode::kFileDamaged, shown_name,
         "the tensors cover " + std::to_string(covered) + " bytes of data, the file has " +
             std::to_string(data_.size()));
  }
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

std::optional<HostTensor> SafetensorsFile::tensor(std::string_view name) const {
  const SafetensorsEntry* entry = find(name);
  if (entry == nullptr) return std::nullopt;
  return tensor(*entry);
}

HostTensor SafetensorsFile::tensor(const SafetensorsEntry& entry) const {
  return {.dtype = entry.dtype,
          .sizes = entry.sizes,
          .strides = contiguous_strides(entry.sizes),
          .storage = data_.subspan(entry.begin, entry.end - entry.begin),
          .owner = owner_};
}

}  // namespace tl

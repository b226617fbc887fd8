#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tensor/host_tensor.h"

namespace tl {

/// One tensor as a safetensors header describes it, checked.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kNone;
  std::vector<std::int64_t> sizes;
  std::size_t begin = 0;  ///< of its bytes, from the start of the data
  std::size_t end = 0;
};

/// A safetensors file, mapped; trusts nothing in it. The format: 8 bytes header length (little-endian), a JSON object
/// name → {dtype, shape, data_offsets}, the packed row-major elements without gaps.
class SafetensorsFile {
 public:
  /// Limits beyond which a file is refused with kFileLimits.
  static constexpr std::size_t kMaxHeaderBytes = 100'000'000;  ///< the official reader's
  static constexpr std::size_t kMaxRank = 64;

  /// Maps and checks a file. Throws Error: kFileMissing; kFileDamaged for truncation, gaps, sizes that disagree,
  /// unknown dtypes, no JSON; kFileHostile for duplicate names and overlaps; kFileLimits; kUnsupportedKind for the
  /// sub-byte dtypes of the format. Messages name the tensor and both numbers.
  static SafetensorsFile open(const std::filesystem::path& path);

  /// Checks bytes that `owner` keeps alive; `shown_name` stands for the file in messages.
  static SafetensorsFile from_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                    std::string_view shown_name);

  SafetensorsFile(SafetensorsFile&&) = default;
  SafetensorsFile& operator=(SafetensorsFile&&) = default;

  /// All tensors in the order of the header.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// The `__metadata__` of the header.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  const SafetensorsEntry* find(std::string_view name) const;
  /// A view of a tensor, without a copy; it keeps the mapping alive. Its bytes may be unaligned for the dtype, since
  /// the format packs them. nullopt if there is no such name.
  std::optional<HostTensor> tensor(std::string_view name) const;
  /// As tensor(), for an entry of this file.
  HostTensor tensor(const SafetensorsEntry& entry) const;

 private:
  SafetensorsFile() = default;
  void check_layout(std::string_view shown_name) const;

  std::vector<SafetensorsEntry> entries_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  ///< keys point into entries_
  std::map<std::string, std::string> metadata_;
  std::span<const std::byte> data_;
  std::shared_ptr<const void> owner_;
};

}  // namespace tl

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/output_file.h"
#include "tensor/host_tensor.h"
#include "tensor/safetensors.h"

namespace tl {

/// Writes a safetensors file while its tensors arrive: room for the header is reserved at the start and filled in by
/// finish(). Tensors lie in the order they were added, without gaps, as the format demands. Failures to write are
/// Error(kOutputFailed); the file is then incomplete, and its owner removes it.
class SafetensorsWriter {
 public:
  struct Written {
    std::uint64_t bytes = 0;
    std::string digest;  ///< as digest_hex of the file, if asked for
  };

  /// Room that the header of so many tensors with names of so many bytes together takes; an estimate for ordinary
  /// ranks and sizes. Too little room costs a rewrite of the file in finish(), too much is filled with spaces.
  static std::size_t header_space(std::size_t tensors, std::size_t name_bytes);

  /// Creates `path`, or empties it.
  SafetensorsWriter(const std::filesystem::path& path, std::size_t reserved_header_bytes);

  /// Writes the elements in row-major order, straight from the tensor's memory where they are packed. The dtype must
  /// have a safetensors name. A name that was added before, is no UTF-8, or is `__metadata__` is Error(kOutputFailed).
  void add(std::string_view name, const HostTensor& tensor);
  /// Writes elements that are packed already; `bytes` must be as many as dtype and sizes say.
  void add_raw(std::string_view name, DType dtype, std::span<const std::int64_t> sizes,
               std::span<const std::byte> bytes);
  /// As add and add_raw, for tensors that are named by finish_named; not to be mixed with named ones.
  void add_unnamed(const HostTensor& tensor);
  void add_unnamed_raw(DType dtype, std::span<const std::int64_t> sizes, std::span<const std::byte> bytes);
  /// Replaces the `__metadata__` of the header. Bytes that are no UTF-8 become U+FFFD.
  void set_metadata(std::map<std::string, std::string> metadata) { metadata_ = std::move(metadata); }
  /// Bytes of the elements added so far.
  std::uint64_t data_bytes() const { return data_bytes_; }

  /// Writes the header, waits until all is on the disk and closes the file. To be called once, last.
  Written finish(bool with_digest = false);
  /// The same, with digest, naming the tensors in the order they were added; the names are checked as by add.
  Written finish_named(std::vector<std::string> names);

 private:
  void check_name(std::string_view name);
  void append_elements(const HostTensor& tensor);
  void add_entry(std::string_view name, DType dtype, std::span<const std::int64_t> sizes, std::size_t bytes);
  void move_data(std::uint64_t by);

  OutputFile file_;
  std::size_t data_start_;
  std::uint64_t data_bytes_ = 0;
  std::vector<SafetensorsEntry> entries_;
  std::unordered_set<std::string> names_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace tl

#include "tlspec/shard_files.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tensor/strided_copy.h"

namespace tl {
namespace {

/// Estimate of the bytes of a label, where a file is begun before its labels are known.
constexpr std::size_t kNameBytes = 24;
/// Elements in so few bytes are packed into one buffer while they wait; larger ones are held as they are.
constexpr std::size_t kSmallBytes = 4096;

std::size_t bytes_of(const StoredPayload& stored) {
  std::size_t bytes = 0;
  for (const auto& part : stored.parts) bytes += part.tensor.nbytes();
  return bytes;
}

}  // namespace

struct ShardFiles::Shard {
  /// One tensor of the file.
  struct Part {
    std::size_t payload;
    std::string suffix;
  };
  /// A tensor that is not in the file yet: in `packed`, or held.
  struct Waiting {
    DType dtype;
    std::vector<std::int64_t> sizes;
    std::size_t begin = 0;
    std::size_t bytes = 0;
    HostTensor held;
  };

  std::filesystem::path path;
  std::unique_ptr<SafetensorsWriter> writer;  ///< null until the file is begun
  std::vector<Part> parts;
  std::vector<Waiting> waiting;
  std::vector<std::byte> packed;
  std::size_t bytes = 0;
  std::size_t capacity = kMaxTensors;

  void add(const HostTensor& tensor, bool copy) {
    bytes += tensor.nbytes();
    if (writer) {
      writer->add_unnamed(tensor);
      return;
    }
    check_readable(tensor);
    Waiting entry{.dtype = tensor.dtype, .sizes = tensor.sizes, .bytes = tensor.nbytes(), .held = {}};
    if (copy || entry.bytes <= kSmallBytes) {
      entry.begin = packed.size();
      packed.resize(packed.size() + entry.bytes);
      if (entry.bytes != 0) copy_elements(tensor, 0, tensor.numel(), std::span(packed).subspan(entry.begin));
    } else {
      entry.held = tensor;
    }
    waiting.push_back(std::move(entry));
  }

  void begin(std::size_t header_bytes) {
    writer = std::make_unique<SafetensorsWriter>(path, header_bytes);
    for (const auto& entry : waiting) {
      if (entry.held.dtype != DType::kNone) {
        writer->add_unnamed(entry.held);
      } else {
        writer->add_unnamed_raw(entry.dtype, entry.sizes, std::span(packed).subspan(entry.begin, entry.bytes));
      }
    }
    std::vector<Waiting>().swap(waiting);  // its memory too: the file stays open to the end of the run
    std::vector<std::byte>().swap(packed);
  }

  /// Begins the file where it has grown large: with room for as many tensors of that size as it may still get.
  void begin_if_large(std::size_t shard_bytes) {
    if (writer || bytes <= kWaitingBytes) return;
    const auto files_more = shard_bytes / kWaitingBytes + 4;
    capacity = std::min(kMaxTensors, std::max<std::size_t>(1024, files_more * parts.size()));
    begin(SafetensorsWriter::header_space(capacity, capacity * kNameBytes));
  }
};

ShardFiles::ShardFiles(std::filesystem::path directory, std::size_t shard_bytes)
    : directory_(std::move(directory)), shard_bytes_(shard_bytes) {}

ShardFiles::~ShardFiles() = default;

std::int32_t ShardFiles::add(const StoredPayload& stored, bool copy) {
  const auto number = payloads_++;
  if (stored.parts.empty()) return -1;
  const auto bytes = bytes_of(stored);
  bytes_ += bytes;
  if (!shards_.empty()) {
    const auto& last = *shards_.back();
    const bool full = bytes > shard_bytes_ - std::min(last.bytes, shard_bytes_) ||
                      last.parts.size() + stored.parts.size() > last.capacity;
    if (full) close_shard();
  }
  if (shards_.empty() || shards_.back()->path.empty()) {
    if (shards_.empty()) shards_.push_back(std::make_unique<Shard>());
    shards_.back()->path = directory_ / shard_name(static_cast<std::int64_t>(shards_.size() - 1));
  }
  auto& shard = *shards_.back();
  for (const auto& part : stored.parts) {
    shard.add(part.tensor, copy);
    shard.parts.push_back({number, part.suffix});
  }
  shard.begin_if_large(shard_bytes_);
  return static_cast<std::int32_t>(shards_.size() - 1);
}

void ShardFiles::close_shard() {
  auto& shard = *shards_.back();
  if (!shard.writer) {
    shard.begin(SafetensorsWriter::header_space(shard.parts.size(), shard.parts.size() * kNameBytes));
  }
  shards_.push_back(std::make_unique<Shard>());
}

std::vector<ManifestFile> ShardFiles::finish(const std::function<std::string(std::size_t)>& name_of) {
  std::vector<ManifestFile> files;
  for (const auto& shard : shards_) {
    std::vector<std::string> names;
    names.reserve(shard->parts.size());
    std::size_t name_bytes = 0;
    for (const auto& part : shard->parts) {
      names.push_back(name_of(part.payload) + part.suffix);
      name_bytes += names.back().size();
    }
    if (!shard->writer) shard->begin(SafetensorsWriter::header_space(names.size(), name_bytes));
    auto written = shard->writer->finish_named(std::move(names));
    files.push_back(
        {shard->path.filename().string(), static_cast<std::int64_t>(written.bytes), std::move(written.digest), false});
    shard->writer.reset();
  }
  return files;
}

}  // namespace tl

#include "tlspec/shard_writer.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/error.h"
#include "tlspec/payload_encoding.h"

namespace tl {
namespace {

/// Tensors in one file; keeps the header of a file well below the limit of the format.
constexpr std::size_t kMaxTensors = std::size_t{1} << 18;

/// What a payload will take in its file, known before its bytes are fetched.
struct Claim {
  std::size_t bytes = 0;
  std::size_t tensors = 0;
  std::size_t name_bytes = 0;
};

std::size_t bytes_of(const StoredPayload& stored) {
  std::size_t bytes = 0;
  for (const auto& part : stored.parts) bytes += part.tensor.nbytes();
  return bytes;
}

std::size_t strided_bytes(const PayloadFacts& facts) {
  std::int64_t extent = 1;
  for (std::size_t i = 0; i < facts.sizes.size(); ++i) {
    extent = facts.sizes[i] == 0 ? 0 : extent + (facts.sizes[i] - 1) * facts.strides[i];
    if (extent == 0) break;
  }
  const auto elements = std::min(checked_numel(facts.sizes), extent);
  return static_cast<std::size_t>(elements) * item_bytes(facts.dtype);
}

class ShardWriter {
 public:
  ShardWriter(const Trace& trace, const std::filesystem::path& directory, std::size_t shard_bytes)
      : trace_(trace), directory_(directory), shard_bytes_(shard_bytes) {}

  WrittenShards run() {
    const auto& rows = trace_.payloads;
    const auto count = rows.first_op.size();
    auto& columns = result_.columns;
    columns.encoding.assign(rows.encoding.begin(), rows.encoding.end());
    columns.offset.assign(count, 0);
    columns.shard.assign(count, -1);
    if (trace_.payload_source == nullptr) return std::move(result_);
    TL_CHECK(trace_.payload_source->size() >= count, "every row of payloads has a tensor");
    std::vector<Claim> claims;
    claims.reserve(count);
    for (std::size_t row = 0; row < count; ++row) claims.push_back(claim(row));
    for (std::size_t begin = 0; begin < count;) {
      const auto end = shard_end(claims, begin);
      write_shard(claims, begin, end);
      begin = end;
    }
    return std::move(result_);
  }

 private:
  static PayloadId id_of(std::size_t row) { return PayloadId{static_cast<std::uint32_t>(row)}; }

  std::string key_of(std::size_t row) const {
    return op_label(trace_, OpId{static_cast<std::uint32_t>(trace_.payloads.first_op[row])});
  }

  Claim claim(std::size_t row) const {
    const auto facts = trace_.payload_source->facts(id_of(row));
    const auto key_bytes = key_of(row).size();
    if (facts.kind == TensorKind::kOpaque) return {};
    if (facts.kind == TensorKind::kStrided) return {strided_bytes(facts), 1, key_bytes};
    const auto tensor = trace_.payload_source->tensor(id_of(row));
    if (tensor == nullptr) return {};
    const auto stored = encode_payload(*tensor);
    std::size_t name_bytes = 0;
    for (const auto& part : stored.parts) name_bytes += key_bytes + part.suffix.size();
    return {bytes_of(stored), stored.parts.size(), name_bytes};
  }

  std::size_t shard_end(const std::vector<Claim>& claims, std::size_t begin) const {
    std::size_t bytes = 0;
    std::size_t tensors = 0;
    std::size_t row = begin;
    for (; row < claims.size(); ++row) {
      const bool full = claims[row].bytes > shard_bytes_ - std::min(bytes, shard_bytes_) ||
                        tensors + claims[row].tensors > kMaxTensors;
      if (full && tensors != 0) break;
      bytes += claims[row].bytes;
      tensors += claims[row].tensors;
    }
    return row;
  }

  void write_shard(const std::vector<Claim>& claims, std::size_t begin, std::size_t end) {
    Claim total;
    for (auto row = begin; row < end; ++row) {
      total.tensors += claims[row].tensors;
      total.name_bytes += claims[row].name_bytes;
    }
    if (total.tensors == 0) return;
    const auto number = static_cast<std::int32_t>(result_.files.size());
    const auto name = shard_name(number);
    SafetensorsWriter writer(directory_ / name, SafetensorsWriter::header_space(total.tensors, total.name_bytes));
    for (auto row = begin; row < end; ++row) add_payload(writer, row, number);
    auto written = writer.finish(true);
    result_.files.push_back({name, static_cast<std::int64_t>(written.bytes), std::move(written.digest), false});
  }

  void add_payload(SafetensorsWriter& writer, std::size_t row, std::int32_t number) {
    auto& encoding = result_.columns.encoding[row];
    const auto tensor = trace_.payload_source->tensor(id_of(row));
    if (tensor == nullptr) {
      const auto opaque = static_cast<std::uint8_t>(PayloadEncoding::kOpaque);
      if (encoding != opaque) encoding = static_cast<std::uint8_t>(PayloadEncoding::kEmpty);
      return;
    }
    const auto stored = encode_payload(*tensor);
    encoding = static_cast<std::uint8_t>(stored.encoding);
    if (stored.parts.empty()) return;
    const auto key = key_of(row);
    check_fits(stored, row, key);
    for (const auto& part : stored.parts) writer.add(key + part.suffix, part.tensor);
    result_.columns.shard[row] = number;
    ++result_.payloads;
  }

  /// A writer never writes what the reader would refuse.
  void check_fits(const StoredPayload& stored, std::size_t row, const std::string& key) const {
    const auto& rows = trace_.payloads;
    const PayloadShape shape{static_cast<DType>(rows.dtype[row]), trace_.shapes[rows.shape[row]],
                             trace_.shapes[rows.strides[row]], 0};
    try {
      static_cast<void>(decode_payload(stored.encoding, shape, stored.parts));
    } catch (const Error& error) {
      throw Error(ErrorCode::kInvariant, "payload " + std::to_string(row) + " of " + key + " " + error.message);
    }
  }

  const Trace& trace_;
  const std::filesystem::path& directory_;
  std::size_t shard_bytes_;
  WrittenShards result_;
};

}  // namespace

WrittenShards write_shards(const Trace& trace, const std::filesystem::path& directory, std::size_t shard_bytes) {
  return ShardWriter(trace, directory, shard_bytes).run();
}

}  // namespace tl

#include "tlspec/shard_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "tlspec/payload_encoding.h"
#include "tlspec/shard_files.h"

namespace tl {
namespace {

class ShardWriter {
 public:
  ShardWriter(const Trace& trace, ShardFiles& files, const ShardStream* stream)
      : trace_(trace), files_(files), stream_(stream) {}

  WrittenShards run() {
    const auto& rows = trace_.payloads;
    const auto count = rows.first_op.size();
    auto& columns = result_.columns;
    columns.encoding.assign(rows.encoding.begin(), rows.encoding.end());
    columns.offset.assign(count, 0);
    columns.shard.assign(count, -1);
    if (trace_.payload_source == nullptr) return std::move(result_);
    TL_CHECK(trace_.payload_source->size() >= count, "every row of payloads has a tensor");
    row_of_payload_.assign(files_.size(), -1);
    for (std::size_t row = 0; row < count; ++row) add_payload(row);
    result_.files = files_.finish([&](std::size_t payload) { return name_of(payload); });
    return std::move(result_);
  }

 private:
  static PayloadId id_of(std::size_t row) { return PayloadId{static_cast<std::uint32_t>(row)}; }

  std::string key_of(std::size_t row) const {
    return op_label(trace_, OpId{static_cast<std::uint32_t>(trace_.payloads.first_op[row])});
  }

  /// Values that were written while the model ran and turned out to belong to no Op that the recording keeps have no
  /// label.
  std::string name_of(std::size_t payload) const {
    const auto row = row_of_payload_[payload];
    return row < 0 ? "dropped." + std::to_string(payload) : key_of(static_cast<std::size_t>(row));
  }

  void add_payload(std::size_t row) {
    auto& encoding = result_.columns.encoding[row];
    if (const auto* place = streamed(row)) {
      encoding = static_cast<std::uint8_t>(place->encoding);
      result_.columns.shard[row] = place->shard;
      row_of_payload_[place->number] = static_cast<std::int32_t>(row);
      result_.payloads += place->shard >= 0 ? 1 : 0;
      return;
    }
    const auto tensor = trace_.payload_source->tensor(id_of(row));
    if (tensor == nullptr) {
      const auto opaque = static_cast<std::uint8_t>(PayloadEncoding::kOpaque);
      if (encoding != opaque) encoding = static_cast<std::uint8_t>(PayloadEncoding::kEmpty);
      return;
    }
    const auto stored = encode_payload(*tensor);
    encoding = static_cast<std::uint8_t>(stored.encoding);
    if (stored.parts.empty()) return;
    check_fits(stored, row);
    row_of_payload_.push_back(static_cast<std::int32_t>(row));
    result_.columns.shard[row] = files_.add(stored, false);
    ++result_.payloads;
  }

  const ShardStream::Place* streamed(std::size_t row) const {
    if (stream_ == nullptr) return nullptr;
    const auto payload = trace_.payload_source->facts(id_of(row)).storage;
    return payload == 0 ? nullptr : stream_->find(payload - 1);
  }

  /// A writer never writes what the reader would refuse.
  void check_fits(const StoredPayload& stored, std::size_t row) const {
    const auto& rows = trace_.payloads;
    const PayloadShape shape{static_cast<DType>(rows.dtype[row]), trace_.shapes[rows.shape[row]],
                             trace_.shapes[rows.strides[row]], 0};
    const auto& first = stored.parts.front().tensor;
    if (stored.encoding == PayloadEncoding::kDense && first.dtype == shape.dtype &&
        std::ranges::equal(first.sizes, shape.sizes)) {
      return;  // the common case, of which a loop makes a million
    }
    try {
      static_cast<void>(decode_payload(stored.encoding, shape, stored.parts));
    } catch (const Error& error) {
      throw Error(ErrorCode::kInvariant, "payload " + std::to_string(row) + " of " + key_of(row) + " " + error.message);
    }
  }

  const Trace& trace_;
  ShardFiles& files_;
  const ShardStream* stream_;
  std::vector<std::int32_t> row_of_payload_;  ///< by number in files_; -1 for none
  WrittenShards result_;
};

}  // namespace

WrittenShards write_shards(const Trace& trace, const std::filesystem::path& directory, std::size_t shard_bytes) {
  ShardFiles files(directory, shard_bytes);
  return ShardWriter(trace, files, nullptr).run();
}

WrittenShards write_shards(const Trace& trace, ShardStream& stream) {
  return ShardWriter(trace, stream.files(), &stream).run();
}

}  // namespace tl

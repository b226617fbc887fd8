#include "tlspec/shard_stream.h"

#include <string>

#include "core/error.h"
#include "trace/capture.h"

namespace tl {

ShardStream::ShardStream(const std::filesystem::path& target, bool force, std::size_t shard_bytes)
    : directory_(target, force), files_(directory_.temp(), shard_bytes) {}

void ShardStream::write(std::uint32_t payload, const PayloadFacts& facts, const TensorRef& tensor) {
  const auto stored = encode_payload(tensor);
  try {
    static_cast<void>(decode_payload(stored.encoding, {facts.dtype, facts.sizes, facts.strides, 0}, stored.parts));
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvariant, "payload " + std::to_string(payload) + " " + error.message);
  }
  Place place{.number = files_.size(), .encoding = stored.encoding};
  place.shard = files_.add(stored, true);
  places_.emplace(payload, place);
}

const ShardStream::Place* ShardStream::find(std::uint64_t payload) const {
  const auto found = places_.find(payload);
  return found == places_.end() ? nullptr : &found->second;
}

}  // namespace tl

#include "tlspec/mapped_payloads.h"

#include <utility>

#include "core/error.h"
#include "tlspec/manifest.h"
#include "tlspec/payload_encoding.h"
#include "tlspec/stored_tensor.h"

namespace tl {

MappedPayloads::MappedPayloads(std::filesystem::path directory, Trace trace, std::size_t shards)
    : directory_(std::move(directory)), trace_(std::move(trace)), shards_(shards) {}

PayloadFacts MappedPayloads::facts(PayloadId id) const {
  const auto& rows = trace_.payloads;
  const auto row = id.index();
  TL_CHECK(row < size(), "a payload id is a row of payloads");
  return {.kind = kind_of(static_cast<PayloadEncoding>(rows.encoding[row])),
          .dtype = static_cast<DType>(rows.dtype[row]),
          .storage = row + 1,
          .offset = rows.offset[row],
          .sizes = trace_.shapes[rows.shape[row]],
          .strides = trace_.shapes[rows.strides[row]]};
}

TensorRefPtr MappedPayloads::tensor(PayloadId id) const {
  const auto fact = facts(id);
  const auto encoding = static_cast<PayloadEncoding>(trace_.payloads.encoding[id.index()]);
  if (encoding == PayloadEncoding::kEmpty || encoding == PayloadEncoding::kOpaque) return nullptr;
  const auto number = trace_.payloads.shard[id.index()];
  const auto key = op_label(trace_, OpId{static_cast<std::uint32_t>(trace_.payloads.first_op[id.index()])});
  if (number < 0 || static_cast<std::size_t>(number) >= shards_.size()) {
    throw Error(ErrorCode::kFileDamaged, (directory_ / kColumnsFile).string() + ": payloads.shard[" +
                                             std::to_string(id.value) + "] is " + std::to_string(number) +
                                             ", there are " + std::to_string(shards_.size()) + " tensors files");
  }
  const auto& file = shard(static_cast<std::size_t>(number));
  std::vector<TensorPart> parts;
  const bool in_parts = fact.kind != TensorKind::kStrided;
  for (const auto suffix : part_suffixes()) {
    if (!in_parts && !suffix.empty()) continue;  // a name looked for in vain costs as much as one that is there
    if (auto part = file.tensor(key + std::string(suffix))) parts.push_back({std::string(suffix), std::move(*part)});
  }
  try {
    const PayloadShape shape{fact.dtype, fact.sizes, fact.strides, fact.offset};
    return std::make_shared<StoredTensor>(fact.kind, decode_payload(encoding, shape, std::move(parts)));
  } catch (const Error& error) {
    throw Error(error.code, (directory_ / shard_name(number)).string() + ": " + key + " " + error.message);
  }
}

const SafetensorsFile& MappedPayloads::shard(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  auto& slot = shards_[index];
  if (!slot) {
    const auto path = directory_ / shard_name(static_cast<std::int64_t>(index));
    slot = std::make_unique<const SafetensorsFile>(SafetensorsFile::open(path));
  }
  return *slot;
}

}  // namespace tl

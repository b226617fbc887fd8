#include "diff/value_digests.h"

#include <algorithm>
#include <span>

#include "core/digest.h"

namespace tl {
namespace {

std::span<const std::byte> bytes_of(const HostTensor& packed) {
  return packed.storage.subspan(static_cast<std::size_t>(packed.offset) * item_bytes(packed.dtype), packed.nbytes());
}

bool is_one_number(std::span<const std::byte> bytes, std::size_t item) {
  return std::ranges::equal(bytes.first(bytes.size() - item), bytes.subspan(item));
}

void add_statistics(const KnownStats& statistics, Digester& digester) {
  for (const auto& number :
       {statistics.min, statistics.max, statistics.mean, statistics.abs_mean, statistics.stddev, statistics.l2}) {
    const double value = number.value_or(0);
    digester.update(std::as_bytes(std::span(&value, 1)));
  }
}

}  // namespace

const ValueDigests::Digest& ValueDigests::digest(std::size_t row) {
  auto& known = digests_[row];
  if (known) return *known;
  known.emplace();
  if (!values_) return *known;
  const auto value = value_of(side_, row);
  if (value.evidence == Evidence::kShape) return *known;
  constexpr std::int64_t kFewest = 8;
  Digester digester;
  if (!value.tensor) add_statistics(value.statistics, digester);
  for (const auto& part : value.tensor ? value.tensor->to_host() : std::vector<TensorPart>()) {
    const auto packed = to_contiguous(part.tensor);
    const auto bytes = bytes_of(packed);
    digester.update(bytes);
    known->is_telling = value.evidence == Evidence::kFull && value.tensor->kind() == TensorKind::kStrided &&
                        packed.numel() >= kFewest && !is_one_number(bytes, item_bytes(packed.dtype));
  }
  known->hex = to_string(value.evidence) + std::string(short_name(dtype_of(side_, row))) + digester.hex();
  return *known;
}

}  // namespace tl

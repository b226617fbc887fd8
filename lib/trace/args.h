#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tl {

/// What a run-time argument is. Packed arguments are int64 words: one header word, then `count` payload words.
enum class ArgTag : std::uint8_t {
  kNone = 0,        ///< None; no payload word
  kInt = 1,         ///< one word
  kBool = 2,        ///< one word, 0 or 1
  kDouble = 3,      ///< one word, the bits of the double
  kString = 4,      ///< one word, a code of the string pool
  kIntList = 5,     ///< count words
  kDoubleList = 6,  ///< count words
  kBoolList = 7,    ///< count words
  kOp = 8,          ///< one word, the Op whose 0-d value a host value was read from
  kOther = 9,       ///< one word, a string code: a value shown as text only
  kTensor = 10,  ///< count words: a tensor that looks different from the output of the Op its edge names (which wrote
                 ///< to a view of it): element type, element of a list argument or -1, then the sizes
};
/// The greatest tag.
inline constexpr ArgTag kLastArgTag = ArgTag::kTensor;

/// Header of a packed argument. Bits 0-7 tag, 8-23 argument position, 24-31 unused, 32-63 the flow row that computed it
/// (all ones: none, a constant).
struct ArgHeader {
  ArgTag tag = ArgTag::kNone;
  std::uint16_t position = 0;
  std::uint32_t flow = kNoFlow;

  static constexpr std::uint32_t kNoFlow = 0xffffffffu;
  std::int64_t pack() const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(tag) | static_cast<std::uint64_t>(position) << 8 |
                                     static_cast<std::uint64_t>(flow) << 32);
  }
  static ArgHeader unpack(std::int64_t word) {
    const auto bits = static_cast<std::uint64_t>(word);
    return {static_cast<ArgTag>(bits & 0xff), static_cast<std::uint16_t>(bits >> 8 & 0xffff),
            static_cast<std::uint32_t>(bits >> 32)};
  }
};

/// Lists carry their length in the word after the header; all others have 0 (kNone) or 1 payload word.
constexpr bool is_list(ArgTag tag) {
  return tag == ArgTag::kIntList || tag == ArgTag::kDoubleList || tag == ArgTag::kBoolList || tag == ArgTag::kTensor;
}

/// Calls visit(header, payload words) for each packed argument of `words`. Stops silently at a truncated tail, which
/// the readers have refused before.
template <typename Visitor>
void for_each_arg(std::span<const std::int64_t> words, Visitor&& visit) {
  std::size_t at = 0;
  while (at < words.size()) {
    const auto header = ArgHeader::unpack(words[at++]);
    std::size_t count = header.tag == ArgTag::kNone ? 0 : 1;
    if (is_list(header.tag)) {
      if (at >= words.size() || words[at] < 0) return;
      count = static_cast<std::size_t>(words[at++]);
    }
    if (count > words.size() - at) return;
    visit(header, words.subspan(at, count));
    at += count;
  }
}

}  // namespace tl

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"
#include "trace/trace.h"

namespace tl {

/// A record of a Trace that a key names.
struct Found {
  enum class Kind : std::uint8_t { kLayer, kOp, kModule, kModuleCall, kParam, kBuffer } kind = Kind::kLayer;
  std::uint32_t row = 0;  ///< of the table of that kind

  friend bool operator==(const Found&, const Found&) = default;
};

/// Looks `key` up in the order of the design document: Layer label (relu_1_2, input_1); the other keys of Ops: label
/// with pass (relu_1_2:3, relu_1_2:last; `:all` gives the Layer), raw label (relu_1_4_raw), short label (relu_1), role
/// (input.x, output.0); module address (any alias), module call (block:2), address of a parameter, of a buffer; all of
/// these without regard to case; a substring of exactly one Layer label. Errors: kLookupNotFound (with close keys),
/// kPassOutOfRange, kAmbiguousOpLookup (several labels hold the substring). Linear in the rows of the trace, without
/// building a label per row but for the last resort.
Result<Found> look_up(const Trace& trace, std::string_view key);

}  // namespace tl

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trace/finiteness.h"
#include "trace/trace.h"

namespace tl::cli {

/// The Op that stands for a leaf handed to the model or returned by it (input.x, output.0); nullopt without one.
std::optional<OpId> op_of_role(const Trace& trace, std::string_view role);

/// What is known of NaN and Inf in that leaf.
Finiteness finiteness_of_role(const Trace& trace, std::string_view role);

/// The elements of a leaf that are not finite, for people: `nan=1 inf=2` where statistics counted them, `NaN or Inf`
/// where it is only known that there are some, else empty.
std::string nonfinite_of_role(const Trace& trace, std::string_view role);

}  // namespace tl::cli

#pragma once

#include <string>
#include <string_view>

#include "engine/engine.h"

namespace tl::test {

/// A Signature from its text: `forward(Tensor x, Dict(str, Tensor) named, (Tensor, int) pair, Tensor? mask=None, int[]
/// sizes)`. `Pair(a: Tensor, b: int)` is a named tuple; `*` makes the rest keyword-only.
Signature signature_from_text(std::string_view text);

}  // namespace tl::test

#pragma once

#include <string>

namespace tl {

/// A number as Python writes a float of ordinary size: the shortest text that reads back, always told from an integer
/// (`2.0`, `1e+20`, `inf`).
std::string float_text(double value);

}  // namespace tl

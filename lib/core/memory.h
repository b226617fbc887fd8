#pragma once

#include <cstddef>

namespace tl {

/// Memory that this process may still take without pushing others out: what Linux counts as available, or what the
/// control group of the process leaves where that is less. 0 if neither can be read.
std::size_t available_memory();

}  // namespace tl

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tl::lt {

/// One line of the Python stack that a trace stores with a node.
struct StackFrame {
  std::string file;
  std::int64_t line;
  std::string function;
};

/// Reads `file(line): function` lines, innermost first, up to the frame that called the module (`_slow_forward`). Empty
/// if the text is no such stack (a script's source).
std::vector<StackFrame> parse_stack_frames(std::string_view text);

}  // namespace tl::lt

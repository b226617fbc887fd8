#include "torchscript/source_frames.h"

#include <charconv>

namespace tl::lt {

std::vector<StackFrame> parse_stack_frames(std::string_view text) {
  std::vector<StackFrame> frames;
  while (!text.empty()) {
    const auto newline = text.find('\n');
    const auto line = text.substr(0, newline);
    text = newline == std::string_view::npos ? std::string_view{} : text.substr(newline + 1);
    if (line.empty()) continue;
    const auto close = line.find("): ");
    const auto open = close == std::string_view::npos ? close : line.rfind('(', close);
    std::int64_t number = 0;
    if (open == std::string_view::npos ||
        std::from_chars(line.data() + open + 1, line.data() + close, number).ptr != line.data() + close) {
      return frames.empty() ? std::vector<StackFrame>{} : frames;
    }
    const auto function = line.substr(close + 3);
    if (function == "_slow_forward") break;
    frames.push_back({std::string(line.substr(0, open)), number, std::string(function)});
  }
  return frames;
}

}  // namespace tl::lt

#include "core/float_text.h"

#include <array>
#include <charconv>

namespace tl {

std::string float_text(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

}  // namespace tl

#include "text_format.h"

#include <charconv>
#include <cmath>

namespace tl::cli {

std::string format_number(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[48];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, digits).ptr;
  return {buffer, end};
}

std::string format_sizes(std::span<const std::int64_t> sizes) {
  std::string text;
  for (const auto size : sizes) text += (text.empty() ? "" : ",") + std::to_string(size);
  return text;
}

std::string format_type(DType dtype, std::span<const std::int64_t> sizes) {
  return std::string(short_name(dtype)) + "[" + format_sizes(sizes) + "]";
}

std::string counted(std::int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string shell_quoted(std::string_view argument) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string_view::npos) return std::string(argument);
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace tl::cli

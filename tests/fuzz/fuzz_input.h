#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

#include "core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace tl::fuzz {

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// The bytes of an input, taken from its front.
class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size) : rest_(as_text(data, size)) {}

  bool empty() const { return rest_.empty(); }

  /// 0 at the end of the input.
  std::uint8_t byte() {
    const std::string_view one = text(1);
    return one.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(one.front());
  }
  std::size_t word() {
    const std::size_t low = byte();
    return low | static_cast<std::size_t>(byte()) << 8;
  }
  std::string_view text(std::size_t size) {
    const std::string_view result = rest_.substr(0, size);
    rest_.remove_prefix(result.size());
    return result;
  }
  std::string_view rest() { return text(rest_.size()); }

 private:
  std::string_view rest_;
};

/// Stops the process as a finding.
[[noreturn]] inline void finding(std::string_view what) {
  std::fprintf(stderr, "finding: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

/// Runs `read`; true if it came to an end. An Error is an answer, unless it says that an invariant of ours broke;
/// whatever else is thrown reaches the fuzzer.
template <typename Read>
bool answers(const Read& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    if (exit_code_of(error.code) == ExitCode::kBug) finding(error.message);
    if (error.message.empty()) finding("an error without a message");
    return false;
  }
}

}  // namespace tl::fuzz

// The values of --input NAME=VALUE and of JSON files.

#include <string>

#include "engine/literal.h"
#include "fuzz_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = tl::fuzz::as_text(data, size);
  tl::fuzz::answers([&] {
    std::string reason;
    const auto value = tl::parse_literal(text, "x", &reason);
    if (!value && reason.empty()) tl::fuzz::finding("a refusal without a reason");
  });
  return 0;
}

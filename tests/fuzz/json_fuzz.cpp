// JSON: what the pre-pass accepts is built within the bounds, and written again it means the same.

#include <nlohmann/json.hpp>
#include <string>

#include "core/bounded_json.h"
#include "fuzz_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tl::fuzz::finding;
  tl::fuzz::FuzzInput input(data, size);
  const std::uint8_t options = input.byte();
  const std::string_view text = input.rest();
  const tl::JsonLimits limits = {.bytes = 1 << 16,
                                 .depth = 24,
                                 .tokens = 4'000,
                                 .string_bytes = 2'000,
                                 .unique_keys = (options & 1) == 0,
                                 .non_finite_words = (options & 2) != 0};
  tl::JsonExtent extent;
  const bool checked = tl::fuzz::answers([&] { extent = tl::check_json(text, "x.json", limits); });
  nlohmann::json document;
  const bool built = tl::fuzz::answers([&] { document = tl::parse_bounded_json(text, "x.json", limits); });
  if (built && !checked) finding("a document that the pre-pass refuses");
  if (checked && (extent.depth > limits.depth || extent.tokens > limits.tokens)) finding("beyond the limits");
  if (built && !limits.non_finite_words) {
    if (document != nlohmann::json::parse(text, nullptr, false)) finding("another parser reads another document");
    if (document != tl::parse_bounded_json(document.dump(), "again", {})) finding("written again it differs");
  }
  return 0;
}

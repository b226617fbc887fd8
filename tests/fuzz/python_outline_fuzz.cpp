// Python source texts out of a model file: tokens, statements, ternaries.

#include <cstdlib>

#include "fuzz_input.h"
#include "postprocess/python_outline.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = tl::fuzz::as_text(data, size);
  const auto outline = tl::outline_python(text);
  if (!outline) return 0;
  for (const auto& conditional : outline->conditionals) {
    check(conditional.span.begin < conditional.span.end && conditional.span.end <= size && !conditional.arms.empty());
    for (const auto& arm : conditional.arms) {
      check(arm.body.begin < arm.body.end && arm.body.end <= size && arm.test.end <= size && arm.keyword < size);
    }
  }
  for (const auto& test : outline->tests) {
    check(test.span.begin < test.span.end && test.span.end <= size);
    check(outline->test_at(test.span.begin) != nullptr);
  }
  return 0;
}

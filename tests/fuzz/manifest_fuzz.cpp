// manifest.json of a recording.

#include <string>

#include "fuzz_input.h"
#include "tlspec/manifest.h"

#ifdef TL_WITH_LIBFUZZER
#include "json_mutator.h"

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  return tl::fuzz::mutate_json_input(data, size, max_size, seed);
}
#endif

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tl::fuzz::answers([&] {
    const tl::Manifest manifest = tl::parse_manifest(tl::fuzz::as_text(data, size), "manifest.json");
    const std::string text = tl::format_manifest(manifest);
    const tl::Manifest again = tl::parse_manifest(text, "manifest.json");
    if (tl::format_manifest(again) != text) tl::fuzz::finding("read and written twice it differs");
  });
  return 0;
}

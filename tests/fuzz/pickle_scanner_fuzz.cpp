// Opcodes and global names of a pickle.

#include "archive/pickle_scanner.h"
#include "fuzz_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = tl::fuzz::as_bytes(tl::fuzz::as_text(data, size));
  tl::fuzz::answers([&] {
    const tl::PickleScan scan = tl::scan_pickle(bytes, "x.pkl");
    if (scan.bytes == 0 || scan.bytes > size) tl::fuzz::finding("a pickle longer than the file");
  });
  return 0;
}

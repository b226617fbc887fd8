// The directory of a zip archive and the bytes of its entries.

#include "archive/model_kind.h"
#include "archive/zip_directory.h"
#include "fuzz_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = tl::fuzz::as_bytes(tl::fuzz::as_text(data, size));
  tl::fuzz::answers([&] {
    const tl::ZipDirectory zip(bytes, "x.zip");
    bool all_read = true;
    for (const auto& entry : zip.entries()) {
      if (zip.find(entry.name) != &entry) tl::fuzz::finding("an entry that is not found by its name");
      const bool read = tl::fuzz::answers([&] {
        if (zip.read(entry).size() != entry.size) tl::fuzz::finding("an entry of another size than announced");
        if (zip.read_text(entry).size() != entry.size) tl::fuzz::finding("a text of another size than announced");
      });
      all_read = all_read && read;
    }
    if (tl::fuzz::answers([&] { zip.verify_crc(); }) != all_read) {
      tl::fuzz::finding("verify_crc and read disagree");
    }
  });
  return 0;
}

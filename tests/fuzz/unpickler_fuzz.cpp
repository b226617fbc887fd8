// The unpickler, on a pickle inside an archive that has storages to point at; the first byte chooses the options.

#include <memory>
#include <string>

#include "archive/unpickler.h"
#include "archive/zip_directory.h"
#include "fuzz_input.h"
#include "stored_zip.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tl::fuzz::FuzzInput input(data, size);
  const std::uint8_t options_byte = input.byte();
  const tl::UnpickleOptions options = {.script_classes = (options_byte & 1) != 0,
                                       .tensors_without_data = (options_byte & 2) != 0,
                                       .sizes_only = (options_byte & 4) != 0};
  const std::string_view pickle = input.rest();
  tl::fuzz::answers([&] { tl::unpickle(tl::fuzz::as_bytes(pickle), "x.pkl", options); });

  tl::fuzz::StoredZip zip;
  zip.add("m/data.pkl", pickle);
  const std::string storage = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
  for (const std::size_t bytes : {0, 4, 16, 64}) zip.add("m/data/" + std::to_string(bytes), storage.substr(0, bytes));
  zip.add("m/byteorder", "little");
  zip.add("m/version", "3\n");
  const auto archive = std::make_shared<const std::string>(zip.finish());
  tl::fuzz::answers([&] {
    const bool keep = (options_byte & 8) != 0;
    const tl::ZipDirectory directory(tl::fuzz::as_bytes(*archive), "x.pt", keep ? archive : nullptr);
    tl::read_torch_pickle(directory, "m/data.pkl", "m/data/", options);
  });
  return 0;
}

// NumPy arrays: the whole file, and a header text that gets a fitting frame and as many bytes of data as it asks for.

#include <memory>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "tensor/decode.h"
#include "tensor/host_tensor.h"
#include "tensor/npy.h"

namespace {

void read(const std::string& file) {
  const auto owner = std::make_shared<const std::string>(file);
  tl::fuzz::answers([&] {
    const tl::HostTensor tensor = tl::read_npy(tl::fuzz::as_bytes(*owner), owner, "x.npy");
    if (!tl::fits_storage(tensor, tensor.storage.size())) tl::fuzz::finding("an array larger than its bytes");
    const tl::HostTensor packed = tl::to_contiguous(tensor);
    std::vector<double> values(static_cast<std::size_t>(tensor.numel()));
    tl::decode_doubles(packed.dtype, packed.storage.first(packed.nbytes()), values);
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tl::fuzz::FuzzInput input(data, size);
  if (tl::fuzz::as_text(data, size).starts_with("\x93NUMPY")) {
    read(std::string(input.rest()));
    return 0;
  }
  const std::size_t data_bytes = input.word();
  const std::uint8_t version = input.byte() % 5;
  const std::string_view header = input.rest();
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>(header.size() >> (8 * i));
  file += header;
  for (std::size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
  read(file);
  return 0;
}

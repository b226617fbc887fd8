// Safetensors: the whole file, and a header that gets a fitting length and as much data as its offsets ask for.

#include <algorithm>
#include <memory>
#include <string>

#include "fuzz_input.h"
#include "tensor/host_tensor.h"
#include "tensor/safetensors.h"
#include "tensor/safetensors_header.h"

#ifdef TL_WITH_LIBFUZZER
#include "json_mutator.h"

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  return tl::fuzz::mutate_json_input(data, size, max_size, seed);
}
#endif

namespace {

constexpr std::size_t kMaxData = 1 << 16;

void read(const std::string& file) {
  const auto owner = std::make_shared<const std::string>(file);
  tl::fuzz::answers([&] {
    const auto tensors = tl::SafetensorsFile::from_bytes(tl::fuzz::as_bytes(*owner), owner, "x.safetensors");
    std::size_t bytes = 0;
    for (const auto& entry : tensors.entries()) {
      const tl::HostTensor tensor = tensors.tensor(entry);
      if (!tl::fits_storage(tensor, tensor.storage.size())) tl::fuzz::finding("a tensor larger than its bytes");
      bytes += tl::to_contiguous(tensor).nbytes();
      if (tensors.find(entry.name) != &entry) tl::fuzz::finding("a tensor that is not found by its name");
    }
    if (bytes > file.size()) tl::fuzz::finding("tensors larger than the file");
  });
}

/// The form that writers use is read by code of its own; a blank sends the same header to the parser of JSON.
void compare_readers(const tl::SafetensorsHeader& header, std::string_view text) {
  const auto general = tl::parse_safetensors_header("{ " + std::string(text.substr(1)), "general");
  const bool same = std::ranges::equal(header.entries, general.entries, [](const auto& a, const auto& b) {
    return a.name == b.name && a.dtype == b.dtype && a.sizes == b.sizes && a.begin == b.begin && a.end == b.end;
  });
  if (!same || header.metadata != general.metadata) tl::fuzz::finding("a header that two readers see differently");
}

void read_with_fitting_frame(std::string_view text) {
  std::size_t data_bytes = 0;
  const bool parsed = tl::fuzz::answers([&] {
    const tl::SafetensorsHeader header = tl::parse_safetensors_header(text, "x.safetensors");
    compare_readers(header, text);
    for (const auto& entry : header.entries) data_bytes = std::max(data_bytes, entry.end);
    tl::parse_safetensors_header(tl::format_safetensors_header(header), "again");
  });
  if (!parsed || data_bytes > kMaxData) return;
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(text.size() >> (8 * i));
  file += text;
  file.append(data_bytes, '\x5a');
  read(file);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = tl::fuzz::as_text(data, size);
  if (text.starts_with('{')) {
    read_with_fitting_frame(text);
  } else {
    read(std::string(text));
  }
  return 0;
}

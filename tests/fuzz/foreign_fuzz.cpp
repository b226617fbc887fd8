// Recordings of other tools. The first byte says what the rest is: 0 manifest.json of a recorder's dump, 1
// manifest.json of the Python package, 2 tensor_summary.json of trtexec, each beside files that it may name; 3 a file
// (JSONL, JSON, npy, safetensors, a torch archive).

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "fuzz_input.h"
#include "tensor/element.h"
#include "tlspec/foreign.h"

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, std::string_view bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// A safetensors file of this header and as many bytes of data.
std::string tensors(const std::string& header, std::size_t bytes) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file + header + std::string(bytes, '\x3c');
}

/// The directory of this process, with what the manifests may name.
const fs::path& scratch() {
  static const fs::path path = [] {
    std::string name = (fs::temp_directory_path() / "torchlens-fuzz-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    const fs::path directory = name;
    write(directory / "0/tensors-00000.safetensors",
          tensors(R"({"a:1":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                  R"("q:1":{"dtype":"I8","shape":[2],"data_offsets":[24,26]},)"
                  R"("q:1.scale":{"dtype":"F64","shape":[],"data_offsets":[26,34]},)"
                  R"("q:1.zero_point":{"dtype":"I64","shape":[],"data_offsets":[34,42]},)"
                  R"("s:1.indices":{"dtype":"I64","shape":[1,1],"data_offsets":[42,50]},)"
                  R"("s:1.values":{"dtype":"F32","shape":[1],"data_offsets":[50,54]}})",
                  54));
    write(directory / "1/blobs/0000000001.safetensors",
          tensors(R"({"data":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24));
    std::string npy("\x93NUMPY\x01\x00\x46\x00", 10);
    npy += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    npy.resize(80, ' ');
    write(directory / "2/a.npy", npy + std::string(24, '\x3c'));
    std::atexit([] {
      std::error_code ignored;
      fs::remove_all(scratch(), ignored);
    });
    return directory;
  }();
  return path;
}

void walk(const std::vector<tl::DumpEntry>& entries) {
  for (const auto& entry : entries) {
    if (!entry.value) continue;
    const auto parts = entry.value->to_host();
    if (parts.empty()) tl::fuzz::finding("a value without parts");
    for (const auto& part : parts) {
      if (!tl::fits_storage(part.tensor, part.tensor.storage.size())) tl::fuzz::finding("a tensor leaves its storage");
      if (part.tensor.numel() > 0) static_cast<void>(tl::element_as_double(part.tensor, part.tensor.numel() - 1));
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tl::fuzz::FuzzInput input(data, size);
  const int kind = input.byte() % 4;
  constexpr const char* kNames[] = {"manifest.json", "manifest.json", "tensor_summary.json", "file"};
  const auto directory = scratch() / std::to_string(kind);
  write(directory / kNames[kind], input.rest());
  tl::fuzz::answers([&] {
    const auto dump = tl::read_reference(kind == 3 ? directory / kNames[kind] : directory);
    walk(dump.entries);
    walk(dump.inputs);
    walk(dump.outputs);
  });
  return 0;
}

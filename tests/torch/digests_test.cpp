// Digests of parameters, which mostly come from the pass that verifies the file's checksums, against digests of what
// LibTorch (TorchScript) and the reader (exported programs) hold after loading.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/import.h>

#include <map>
#include <string>

#include "archive/exported_program.h"
#include "archive/exported_program_reader.h"
#include "archive/zip_directory.h"
#include "core/digest.h"
#include "core/mapped_file.h"
#include "tensor/host_tensor.h"
#include "torch/recording.h"
#include "torch/small_files.h"

namespace tl::test {
namespace {

using Digests = std::map<std::string, std::string>;

Digests recorded(const ZooFile& file) {
  const auto trace = record_file(file, 0);
  Digests digests;
  for (std::size_t row = 0; row < trace.params.digest.size(); ++row) {
    const std::string addresses(trace.strings[trace.params.all_addresses[row]]);
    const std::string digest(trace.strings[trace.params.digest[row]]);
    digests.emplace(trace.strings[trace.params.address[row]], digest);  // which may hold commas itself
    for (std::size_t begin = 0; begin <= addresses.size();) {
      const auto end = std::min(addresses.find(',', begin), addresses.size());
      digests.emplace(addresses.substr(begin, end - begin), digest);
      begin = end + 1;
    }
  }
  return digests;
}

Digests of_torchscript(const ZooFile& file) {
  Digests digests;
  for (const auto& [name, tensor] : torch::jit::load(file.model.string()).named_parameters()) {
    if (tensor.layout() != at::kStrided || tensor.is_quantized()) continue;
    const auto packed = tensor.detach().resolve_conj().resolve_neg().contiguous();
    digests.emplace(name, digest_hex({static_cast<const std::byte*>(packed.const_data_ptr()), packed.nbytes()}));
  }
  return digests;
}

Digests of_exported(const ZooFile& file) {
  const auto mapped = MappedFile::open(file.model);
  const ZipDirectory zip(mapped->bytes(), file.name(), mapped);
  Digests digests;
  for (const auto& payload : read_exported_program(zip, {.model = file.program}).payloads) {
    if (!payload.is_parameter || payload.is_object || !payload.refusal.empty()) continue;
    const auto packed = to_contiguous(payload.tensor);
    const auto begin = static_cast<std::size_t>(packed.offset) * item_bytes(packed.dtype);
    digests.emplace(payload.name, digest_hex(packed.storage.subspan(begin, packed.nbytes())));
  }
  return digests;
}

std::vector<ZooFile> files() {
  auto files = all_runnable_files();
  const auto small = small_files();
  files.insert(files.end(), small.begin(), small.end());
  return files;
}

class Digest : public testing::TestWithParam<ZooFile> {};

TEST_P(Digest, IsThatOfTheLoadedParameter) {
  const auto expected = GetParam().is_exported() ? of_exported(GetParam()) : of_torchscript(GetParam());
  const auto found = recorded(GetParam());
  for (const auto& [name, digest] : expected) {
    const auto row = found.find(name);
    ASSERT_NE(row, found.end()) << name;
    EXPECT_EQ(row->second, digest) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Digest, testing::ValuesIn(files()),
                         [](const auto& instance) { return case_name(instance.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Digest);

}  // namespace
}  // namespace tl::test

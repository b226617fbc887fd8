#include "engine/input_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "core/error.h"
#include "support/temp_directory.h"
#include "tensor/safetensors_writer.h"

namespace tl {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path shared(const char* name) { return fs::path(TL_SHARED_DIR) / name; }

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

/// A .npy of version 1.0 as NumPy's format description gives it.
std::string npy(const std::string& descr, const std::string& shape, const std::string& bytes) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header += std::string(64 - (10 + header.size() + 1) % 64, ' ') + "\n";
  std::string text = std::string("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size() & 0xff);
  text += static_cast<char>(header.size() >> 8);
  return text + header + bytes;
}

fs::path write_safetensors(const fs::path& path, const std::vector<std::string>& names) {
  SafetensorsWriter writer(path, 4096);
  for (const auto& name : names) writer.add(name, make_host_tensor(DType::kF32, {1}, std::vector<std::byte>(4)));
  writer.finish();
  return path;
}

std::vector<std::string> names_of(const GivenSet& set) {
  std::vector<std::string> names;
  for (const auto& entry : set.entries) names.push_back(entry.name);
  return names;
}

Error refused(const std::string& option) {
  try {
    read_input_option(option);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << option;
  return Error(ErrorCode::kInternal, "");
}

TEST(InputFiles, TheFormIsToldByContent) {
  const TempDirectory directory;
  write(directory / "a.bin", npy("<f4", "(2,)", std::string(8, '\0')));
  const auto array = read_input_file(directory / "a.bin");
  ASSERT_EQ(array.entries.size(), 1U);
  EXPECT_EQ(array.entries[0].name, "");
  EXPECT_EQ(describe(array.entries[0].value), "f32[2]");
  EXPECT_EQ(array.entries[0].value.source, "a.bin");
  write_safetensors(directory / "b.bin", {"x", "y"});
  const auto tensors = read_input_file(directory / "b.bin");
  EXPECT_THAT(names_of(tensors), testing::ElementsAre("x", "y"));
  EXPECT_EQ(tensors.entries[0].value.source, "b.bin:x");
  EXPECT_FALSE(tensors.names_are_meant);
  write(directory / "c.bin", "{\"n\": 3, \"flag\": true, \"sizes\": [1, 2]}\n");
  EXPECT_THAT(names_of(read_input_file(directory / "c.bin")), testing::ElementsAre("n", "flag", "sizes"));
}

TEST(InputFiles, Options) {
  const TempDirectory directory;
  const auto one = write_safetensors(directory / "one.safetensors", {"k"}).string();
  const auto two = write_safetensors(directory / "two.safetensors", {"mask", "image"}).string();
  EXPECT_THAT(names_of(read_input_option(two)), testing::ElementsAre("mask", "image"));
  EXPECT_THAT(names_of(read_input_option("x=" + one)), testing::ElementsAre("x"));
  EXPECT_THAT(names_of(read_input_option("x=" + two + ":image")), testing::ElementsAre("x"));
  EXPECT_EQ(read_input_option("x=" + two + ":image").entries[0].value.source, "two.safetensors:image");
  EXPECT_THAT(names_of(read_input_option("batch=" + two)), testing::ElementsAre("batch.mask", "batch.image"));
  const auto literal = read_input_option("batch.n=3");
  EXPECT_TRUE(literal.names_are_meant);
  EXPECT_EQ(literal.entries[0].name, "batch.n");
  EXPECT_EQ(describe(literal.entries[0].value), "3");
  EXPECT_EQ(describe(read_input_option("how=\"tanh\"").entries[0].value), "\"tanh\"");
}

TEST(InputFiles, AFileMayHoldAnEqualsSignAndAColon) {
  const TempDirectory directory;
  const auto path = write_safetensors(directory / "a=b:c.safetensors", {"k"}).string();
  EXPECT_THAT(names_of(read_input_option(path)), testing::ElementsAre("k"));
  EXPECT_THAT(names_of(read_input_option("x=" + path + ":k")), testing::ElementsAre("x"));
}

TEST(InputFiles, Refusals) {
  const TempDirectory directory;
  const auto two = write_safetensors(directory / "two.safetensors", {"mask", "image"}).string();
  EXPECT_EQ(refused("nowhere.npy").code, ErrorCode::kFileMissing);
  const auto word = refused("how=tanh");
  EXPECT_EQ(word.code, ErrorCode::kFileMissing);
  EXPECT_THAT(word.hint, HasSubstr("--input 'how=\"tanh\"'"));
  EXPECT_EQ(refused("x=").code, ErrorCode::kUsage);
  const auto key = refused("x=" + two + ":imag");
  EXPECT_EQ(key.code, ErrorCode::kUsage);
  EXPECT_THAT(key.note, HasSubstr("it holds mask, image"));
  write(directory / "empty", "");
  EXPECT_EQ(refused((directory / "empty").string()).code, ErrorCode::kNotAnInput);
  write(directory / "text.npy", "hello");
  EXPECT_EQ(refused((directory / "text.npy").string()).code, ErrorCode::kNotAnInput);
  write(directory / "cut.safetensors", "\x10");
  EXPECT_EQ(refused((directory / "cut.safetensors").string()).code, ErrorCode::kFileDamaged);
  EXPECT_EQ(refused(directory.path().string()).code, ErrorCode::kFileMissing);
}

TEST(InputFiles, RandomTensorsAreOneSet) {
  const std::vector<std::string> specs = {"x:f32[2,3]", "ids:i64[4]<5"};
  const auto set = make_random_inputs(specs, 1);
  EXPECT_THAT(names_of(set), testing::ElementsAre("x", "ids"));
  EXPECT_EQ(set.entries[0].value.source, "random");
  EXPECT_TRUE(set.names_are_meant);
}

// branch_net.inputs.pt: torch.save(((x[3, 4], True), {})); nested_io.inputs.pt: lists, a dict, a tuple (zoo/README).
TEST(InputFiles, PicklesOfCalls) {
  if (!fs::exists(shared("zoo/branch_net.inputs.pt"))) GTEST_SKIP() << "no reference files beside the project";
  const auto branch = read_input_file(shared("zoo/branch_net.inputs.pt"));
  ASSERT_EQ(branch.positional.size(), 2U);
  EXPECT_EQ(describe(branch.positional[0]), "f32[3,4]");
  EXPECT_EQ(describe(branch.positional[1]), "true");
  EXPECT_TRUE(branch.entries.empty());
  const auto nested = read_input_file(shared("zoo/nested_io.inputs.pt"));
  ASSERT_EQ(nested.positional.size(), 4U);
  EXPECT_EQ(describe(nested.positional[0]), "list of 2 (f32[2,4], …)");
  EXPECT_EQ(describe(nested.positional[2]), "tuple of 2 (f32[2,4], …)");
  const auto keywords = read_input_file(shared("zoo/distilbert_raw.inputs.pt"));
  EXPECT_THAT(names_of(keywords), testing::ElementsAre("input_ids", "attention_mask"));
  EXPECT_TRUE(keywords.names_are_meant);
}

TEST(InputFiles, AModelIsNoInput) {
  if (!fs::exists(shared("zoo/smallconv.ts.pt"))) GTEST_SKIP() << "no reference files beside the project";
  EXPECT_EQ(refused(shared("zoo/smallconv.ts.pt").string()).code, ErrorCode::kNotAnInput);
}

}  // namespace
}  // namespace tl

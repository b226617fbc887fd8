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

std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

/// CRC-32 as ISO 3309 defines it, which zip uses.
std::uint32_t crc32(const std::string& bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

/// A zip archive of one stored entry, as APPNOTE.TXT 6.3 lays it out.
std::string stored_zip(const std::string& name, const std::string& content) {
  const auto sizes = little_endian(content.size(), 4);
  const auto common = little_endian(20, 2) + little_endian(0, 2) + little_endian(0, 2) + little_endian(0, 4) +
                      little_endian(crc32(content), 4) + sizes + sizes + little_endian(name.size(), 2) +
                      little_endian(0, 2);
  const auto local = "PK\x03\x04" + common + name + content;
  const auto central = std::string("PK\x01\x02") + little_endian(20, 2) + common + little_endian(0, 2) +
                       little_endian(0, 2) + little_endian(0, 2) + little_endian(0, 4) + little_endian(0, 4) + name;
  return local + central + "PK\x05\x06" + little_endian(0, 4) + little_endian(1, 2) + little_endian(1, 2) +
         little_endian(central.size(), 4) + little_endian(local.size(), 4) + little_endian(0, 2);
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

TEST(InputFiles, WhatIsWrongWithAJsonFile) {
  const TempDirectory directory;
  const auto path = (directory / "a.json").string();
  struct Row {
    std::string text;
    ErrorCode code;
    std::string part;
  };
  const std::vector<Row> rows = {
      {"{\"n\": 3,}", ErrorCode::kFileDamaged, ""},
      {"{\"n\": 3} x", ErrorCode::kFileDamaged, ""},
      {"{\"n\": 3, \"n\": 4}", ErrorCode::kFileHostile, "n"},
      {"{\"d\": {\"a\": 3, \"a\": 4}}", ErrorCode::kFileHostile, "a"},
      {"{\"n\": 007}", ErrorCode::kFileDamaged, ""},
      {"{\"n\": 123456789012345678901234567890}", ErrorCode::kFileDamaged, "outside int64"},
      {"{\"f\": 1e999}", ErrorCode::kFileDamaged, "outside float64"},
      {"{\"s\": \"\xff\"}", ErrorCode::kFileDamaged, ""},
      {std::string(1000, '[') + std::string(1000, ']'), ErrorCode::kFileLimits, "64"},
      {std::string(200'000, '['), ErrorCode::kFileLimits, "64"},
      {"\xef\xbb\xbf{\"n\": 3}", ErrorCode::kNotAnInput, "byte order mark"},
      {"   \n", ErrorCode::kNotAnInput, "not a file of inputs"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n", ErrorCode::kNotAnInput, "LFS"},
      {"<!DOCTYPE html><html></html>", ErrorCode::kNotAnInput, "HTML"},
  };
  for (const auto& row : rows) {
    write(path, row.text);
    const auto error = refused(path);
    EXPECT_EQ(to_string(error.code), to_string(row.code)) << row.text.substr(0, 60) << ": " << error.message;
    EXPECT_THAT(error.message, HasSubstr(row.part));
    EXPECT_THAT(error.message, HasSubstr("a.json"));
  }
  write(path, "{\"f\": NaN, \"g\": -Infinity}");
  EXPECT_EQ(describe(read_input_file(path).entries[1].value), "-inf");
}

// A value takes 200 bytes, its text two.
TEST(InputFiles, TheValuesOfAJsonFileAreBounded) {
  const TempDirectory directory;
  std::string text = "[0";
  for (int i = 0; i < 1'000'000; ++i) text += ",0";
  write(directory / "a.json", text + "]");
  EXPECT_EQ(refused((directory / "a.json").string()).code, ErrorCode::kFileLimits);
}

TEST(InputFiles, AnLfsPointerUnderTheNameOfSafetensors) {
  const TempDirectory directory;
  write(directory / "x.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n");
  EXPECT_THAT(refused((directory / "x.safetensors").string()).message, HasSubstr("LFS"));
}

TEST(InputFiles, OptionsThatAreNone) {
  struct Row {
    std::string option;
    ErrorCode code;
    std::string part;
  };
  const std::vector<Row> rows = {
      {"", ErrorCode::kUsage, "an empty text"},
      {"=3", ErrorCode::kUsage, "no name before '='"},
      {"x=", ErrorCode::kUsage, "nothing after '='"},
      {"n=0x10", ErrorCode::kUsage, "'0x10', which is no value"},
      {"n=99999999999999999999", ErrorCode::kUsage, "outside int64"},
      {"n=[1,2", ErrorCode::kUsage, "neither ',' nor ']'"},
      {"s=1,2", ErrorCode::kUsage, "text after the value"},
      {"name=\"x", ErrorCode::kUsage, "closing quote"},
      {"x=nowhere.npy", ErrorCode::kFileMissing, "no such file"},
      {"x=nowhere.npz:key", ErrorCode::kFileMissing, "no such file"},
      {"x=a/b", ErrorCode::kFileMissing, "no such file"},
      {"flag=yes", ErrorCode::kFileMissing, "neither a value nor a file"},
  };
  for (const auto& row : rows) {
    const auto error = refused(row.option);
    EXPECT_EQ(to_string(error.code), to_string(row.code)) << row.option;
    EXPECT_THAT(error.message, HasSubstr(row.part));
  }
  EXPECT_THAT(refused("flag=yes").hint, HasSubstr("true or false"));
  EXPECT_THAT(refused("s=it's \"so\"").hint, HasSubstr(R"(--input 's="it'\''s \"so\""')"));
}

TEST(InputFiles, AllOptionsThatCannotBeReadAreNamed) {
  const std::vector<std::string> options = {"x=no1.npy", "n=3", "y=no2.npy"};
  try {
    read_input_options(options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.message, HasSubstr("x=no1.npy"));
    EXPECT_THAT(error.note, HasSubstr("also, --input y=no2.npy"));
  }
}

TEST(InputFiles, KeysAreSuggestedAndMayBeTakenAlone) {
  const TempDirectory directory;
  const auto two = write_safetensors(directory / "two.safetensors", {"mask", "image"}).string();
  EXPECT_EQ(refused("x=" + two + ":imag").hint, "did you mean image?");
  EXPECT_THAT(names_of(read_input_option(two + ":image")), testing::ElementsAre("image"));
  EXPECT_THAT(names_of(read_input_option("d.my key=3")), testing::ElementsAre("d.my key"));
}

TEST(InputFiles, AFileOfThatNameDoesNotHideAValue) {
  const TempDirectory directory;
  const auto before = fs::current_path();
  fs::current_path(directory.path());
  write("3", "x");
  const auto value = describe(read_input_option("n=3").entries[0].value);
  fs::current_path(before);
  EXPECT_EQ(value, "3");
}

TEST(InputFiles, NpyForms) {
  const TempDirectory directory;
  const auto path = (directory / "a.npy").string();
  struct Row {
    std::string descr;
    std::string shape;
    std::size_t bytes;
    std::string shown;  ///< or a part of the message
    ErrorCode code = ErrorCode::kInternal;
  };
  const std::vector<Row> rows = {
      {"<f4", "()", 4, "f32[]"},
      {"<f4", "(0, 3)", 0, "f32[0,3]"},
      {">f8", "(2,)", 16, "f64[2]"},
      {"|b1", "(2, 2)", 4, "bool[2,2]"},
      {"<c16", "(1,)", 16, "c128[1]"},
      {"<f2", "(3,)", 6, "f16[3]"},
      {"<f4", "(3,)", 11, "need 12 bytes, 11 follow", ErrorCode::kFileDamaged},
      {"<f4", "(3,)", 13, "need 12 bytes, 13 follow", ErrorCode::kFileDamaged},
      {"<f4", "(9223372036854775807, 9223372036854775807)", 8, "more than 2^63", ErrorCode::kFileDamaged},
      {"<f4", "(9223372036854775807, 9223372036854775807, 0)", 0, "more than 2^63", ErrorCode::kFileDamaged},
      {"|O", "(1,)", 8, "Python objects", ErrorCode::kUnsupportedKind},
      {"<U2", "(1,)", 8, "no tensor element", ErrorCode::kUnsupportedKind},
      {"<M8[D]", "(1,)", 8, "no tensor element", ErrorCode::kUnsupportedKind},
      {"<f16", "(1,)", 16, "no tensor element", ErrorCode::kUnsupportedKind},
      {"|V2", "(1,)", 2, "bfloat16", ErrorCode::kUnsupportedKind},
  };
  for (const auto& row : rows) {
    write(path, npy(row.descr, row.shape, std::string(row.bytes, '\0')));
    if (row.code == ErrorCode::kInternal) {
      EXPECT_EQ(describe(read_input_file(path).entries[0].value), row.shown);
      continue;
    }
    const auto error = refused(path);
    EXPECT_EQ(to_string(error.code), to_string(row.code)) << row.descr << row.shape;
    EXPECT_THAT(error.message, HasSubstr(row.shown));
  }
}

TEST(InputFiles, ADamagedArchiveOfArraysIsRefused) {
  const TempDirectory directory;
  const auto content = npy("<f4", "(2,)", std::string(8, '\1'));
  const std::string zip = stored_zip("x.npy", content);
  write(directory / "a.npz", zip);
  EXPECT_THAT(names_of(read_input_file(directory / "a.npz")), testing::ElementsAre("x"));
  auto broken = zip;
  broken[zip.find(content) + content.size() - 1] ^= 1;
  write(directory / "b.npz", broken);
  EXPECT_EQ(refused((directory / "b.npz").string()).code, ErrorCode::kFileDamaged);
  write(directory / "c.npz", stored_zip("README.txt", content));
  EXPECT_THAT(refused((directory / "c.npz").string()).message, HasSubstr("'README.txt' is no .npy"));
}

}  // namespace
}  // namespace tl

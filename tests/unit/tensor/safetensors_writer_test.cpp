#include "tensor/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/digest.h"
#include "core/mapped_file.h"
#include "data_files.h"
#include "support/temp_directory.h"
#include "tensor/statistics.h"

namespace tl {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

HostTensor counting(DType dtype, std::vector<std::int64_t> sizes) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(checked_numel(sizes)) * item_bytes(dtype));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 % 64);
  return make_host_tensor(dtype, std::move(sizes), std::move(bytes));
}

HostTensor transposed(HostTensor tensor) {
  std::swap(tensor.sizes[0], tensor.sizes[1]);
  std::swap(tensor.strides[0], tensor.strides[1]);
  return tensor;
}

/// The rules of the format (https://github.com/huggingface/safetensors, "Format"), read from the bytes alone.
void expect_valid_format(const std::string& file) {
  ASSERT_GE(file.size(), 8U);
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  ASSERT_LE(length, file.size() - 8);
  EXPECT_EQ(length % 8, 0U);
  EXPECT_EQ(file[8], '{');
  const std::size_t close = file.substr(8, length).find_last_not_of(' ');
  EXPECT_EQ(file[8 + close], '}') << "only spaces pad the header";
  const auto header = nlohmann::ordered_json::parse(file.substr(8, length));
  std::size_t covered = 0;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    EXPECT_EQ(entry.size(), 3U);
    EXPECT_EQ(entry["data_offsets"][0], covered) << name << ": no gaps, no overlaps, in order";
    covered = entry["data_offsets"][1];
  }
  EXPECT_EQ(covered, file.size() - 8 - length);
}

void expect_equal(const SafetensorsFile& file, std::string_view name, const HostTensor& tensor) {
  const auto read = file.tensor(name);
  ASSERT_TRUE(read.has_value()) << name;
  EXPECT_EQ(read->dtype, tensor.dtype);
  EXPECT_EQ(read->sizes, tensor.sizes);
  const HostTensor packed = to_contiguous(tensor);
  EXPECT_TRUE(std::ranges::equal(read->storage, packed.storage)) << name;
}

struct Named {
  std::string name;
  HostTensor tensor;
};

std::vector<Named> all_kinds() {
  std::vector<Named> tensors;
  for (int number = 0; number < 255; ++number) {
    const DTypeInfo& info = dtype_info(static_cast<DType>(number));
    if (!info.safetensors_name.empty()) tensors.push_back({std::string(info.short_name), counting(info.dtype, {3, 2})});
  }
  tensors.push_back({"scalar", counting(DType::kF64, {})});
  tensors.push_back({"empty", counting(DType::kF32, {0, 4})});
  tensors.push_back({"transposed", transposed(counting(DType::kI16, {5, 3}))});
  HostTensor expanded = counting(DType::kF32, {3});
  expanded.sizes = {2, 3};
  expanded.strides = {0, 1};
  tensors.push_back({"expanded", expanded});
  tensors.push_back({"relu_1_2:3 \"ü\"\n", counting(DType::kF32, {1})});
  for (Named& named : tensors) {
    if (named.tensor.dtype != DType::kBool) continue;
    named.tensor = make_host_tensor(DType::kBool, {2}, {std::byte{0}, std::byte{1}});
  }
  return tensors;
}

class SafetensorsWriterTest : public testing::TestWithParam<std::size_t> {
 protected:
  TempDirectory directory_;
};

TEST_P(SafetensorsWriterTest, WritesEveryKind) {
  const std::filesystem::path path = directory_ / "out.safetensors";
  SafetensorsWriter writer(path, GetParam());
  const std::vector<Named> tensors = all_kinds();
  for (const Named& named : tensors) writer.add(named.name, named.tensor);
  writer.set_metadata({{"format", "torchlens"}, {"bad", "\xff"}});
  const auto written = writer.finish();
  EXPECT_EQ(written.bytes, std::filesystem::file_size(path));
  EXPECT_TRUE(written.digest.empty());
  expect_valid_format(read_text(path));
  const auto file = SafetensorsFile::open(path);
  ASSERT_EQ(file.entries().size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(file.entries()[i].name, tensors[i].name) << "in the order of adding";
    expect_equal(file, tensors[i].name, tensors[i].tensor);
  }
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("bad", "\xEF\xBF\xBD"), Pair("format", "torchlens")));
}

TEST_P(SafetensorsWriterTest, LargeAndStridedTensorsInChunks) {
  const std::filesystem::path path = directory_ / "out.safetensors";
  SafetensorsWriter writer(path, GetParam());
  const HostTensor large = counting(DType::kF32, {700, 1001});
  const HostTensor small = counting(DType::kU8, {3});
  writer.add("large", large);
  writer.add("small", small);
  writer.add("turned", transposed(large));
  EXPECT_EQ(writer.data_bytes(), 2 * 700 * 1001 * 4 + 3U);
  const auto written = writer.finish(true);
  EXPECT_EQ(written.digest, digest_hex(MappedFile::open(path)->bytes()));
  expect_valid_format(read_text(path));
  const auto file = SafetensorsFile::open(path);
  expect_equal(file, "large", large);
  expect_equal(file, "small", small);
  expect_equal(file, "turned", transposed(large));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.tensor("large")->storage.data()) % 64, 0U);
}

INSTANTIATE_TEST_SUITE_P(HeaderSpace, SafetensorsWriterTest, testing::Values(0, 1000, 4096, 100'000));

class SafetensorsWriterFileTest : public testing::Test {
 protected:
  TempDirectory directory_;
};

TEST_F(SafetensorsWriterFileTest, RawBytesAndNothingAtAll) {
  const std::vector<std::byte> bytes(24, std::byte{5});
  SafetensorsWriter writer(directory_ / "raw.safetensors", 256);
  writer.add_raw("column", DType::kI64, std::vector<std::int64_t>{3}, bytes);
  writer.finish();
  const auto file = SafetensorsFile::open(directory_ / "raw.safetensors");
  EXPECT_THAT(file.tensor("column")->sizes, ElementsAre(3));
  EXPECT_TRUE(std::ranges::equal(file.tensor("column")->storage, bytes));
  SafetensorsWriter(directory_ / "none.safetensors", 0).finish();
  EXPECT_TRUE(SafetensorsFile::open(directory_ / "none.safetensors").entries().empty());
  expect_valid_format(read_text(directory_ / "none.safetensors"));
}

TEST_F(SafetensorsWriterFileTest, TheSameTensorsGiveTheSameBytes) {
  for (const char* name : {"a", "b"}) {
    SafetensorsWriter writer(directory_ / name, SafetensorsWriter::header_space(30, 300));
    for (const Named& named : all_kinds()) writer.add(named.name, named.tensor);
    writer.finish();
  }
  EXPECT_EQ(read_text(directory_ / "a"), read_text(directory_ / "b"));
}

TEST_F(SafetensorsWriterFileTest, HeaderSpaceSufficesForOrdinaryTensors) {
  const std::size_t space = SafetensorsWriter::header_space(200, 200 * 12);
  SafetensorsWriter writer(directory_ / "out", space);
  for (int i = 0; i < 200; ++i) writer.add("relu_1_" + std::to_string(10000 + i), counting(DType::kF32, {2, 1, 7, 7}));
  const auto written = writer.finish();
  EXPECT_LE(written.bytes - writer.data_bytes(), space + 8 + 64) << "nothing was moved";
}

TEST_F(SafetensorsWriterFileTest, WhatTheFormatCannotHold) {
  SafetensorsWriter writer(directory_ / "out", 256);
  const HostTensor tensor = counting(DType::kF32, {2});
  writer.add("a", tensor);
  const auto refusal = [&](std::string_view name) { return error_of([&] { writer.add(name, tensor); }); };
  EXPECT_EQ(refusal("a").first, ErrorCode::kOutputFailed);
  EXPECT_THAT(refusal("a").second, HasSubstr("tensor 'a' is written twice"));
  EXPECT_THAT(refusal("__metadata__").second, HasSubstr("reserves"));
  EXPECT_THAT(refusal("\xff").second, HasSubstr("no UTF-8"));
  EXPECT_THAT(error_of([&] { writer.add("c", counting(DType::kC128, {1})); }).second,
              HasSubstr("only dtypes of the format"));
  EXPECT_NE(error_of([&] { writer.add_raw("d", DType::kF32, std::vector<std::int64_t>{2}, {}); }).second, "none");
  writer.finish();
  EXPECT_EQ(SafetensorsFile::open(directory_ / "out").entries().size(), 1U);
}

TEST_F(SafetensorsWriterFileTest, FailedWritesAreReported) {
  int failures = 0;
  for (int operation = 1;; ++operation) {
    set_write_fault(operation);
    const auto [code, message] = error_of([&] {
      SafetensorsWriter writer(directory_ / "out", 0);
      writer.add("a", counting(DType::kF32, {300, 300}));
      writer.finish();
    });
    set_write_fault(0);
    if (message == "none") break;
    EXPECT_EQ(code, ErrorCode::kOutputFailed);
    ++failures;
  }
  EXPECT_GE(failures, 4);
}

/// What a shell command prints; nullopt if it fails.
std::optional<std::string> output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 4096> buffer;
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), count);
  if (pclose(pipe) != 0) return std::nullopt;
  return text;
}

// TORCHLENS_TEST_PYTHON names a Python that has torch and safetensors.
TEST_F(SafetensorsWriterFileTest, PythonReadsTheSame) {
  const char* chosen = std::getenv("TORCHLENS_TEST_PYTHON");
  const std::string python = chosen != nullptr ? chosen : "python3";
  if (!output_of(python + " -c 'import torch, safetensors'")) GTEST_SKIP() << python << " has no torch and safetensors";
  const std::filesystem::path path = directory_ / "out.safetensors";
  SafetensorsWriter writer(path, 64);
  std::map<std::string, std::string> expected;
  for (const Named& named : all_kinds()) {
    if (named.name.find('\n') != std::string::npos) continue;
    writer.add(named.name, named.tensor);
    const HostTensor packed = to_contiguous(named.tensor);
    std::string line = named.name + " " + std::string(dtype_info(packed.dtype).torch_name) + " [";
    for (std::size_t i = 0; i < packed.sizes.size(); ++i)
      line += (i == 0 ? "" : ", ") + std::to_string(packed.sizes[i]);
    line += "] ";
    for (const std::byte byte : packed.storage) {
      constexpr std::string_view kHex = "0123456789abcdef";
      line += kHex[std::to_integer<unsigned>(byte) >> 4];
      line += kHex[std::to_integer<unsigned>(byte) & 15U];
    }
    expected[named.name] = line + "\n";
  }
  writer.set_metadata({{"format", "torchlens"}});
  writer.finish();
  std::string text = "metadata {'format': 'torchlens'}\n";
  for (const auto& [name, line] : expected) text += line;
  const std::string script = std::string(TL_SOURCE_DIR) + "/tests/unit/tensor/check_safetensors.py";
  EXPECT_EQ(output_of(python + " '" + script + "' '" + path.string() + "'"), text);
}

}  // namespace
}  // namespace tl

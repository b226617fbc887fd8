#include "tensor/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/mapped_file.h"
#include "data_files.h"
#include "tensor/element.h"
#include "tensor/statistics.h"

namespace tl {
namespace {

using test::data_path;
using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

HostTensor read(std::string_view name) {
  const auto file = MappedFile::open(data_path(name));
  return read_npy(file->bytes(), file, name);
}

/// A version 1 file with this header text and `data_bytes` zero bytes of data.
std::vector<std::byte> npy_with(std::string_view header, std::size_t data_bytes) {
  std::string text = "\x93NUMPY\x01";
  text += '\0';
  text += static_cast<char>(header.size() & 0xff);
  text += static_cast<char>(header.size() >> 8);
  text += header;
  text.append(data_bytes, '\0');
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::pair<ErrorCode, std::string> error_with(std::string_view header, std::size_t data_bytes) {
  const auto bytes = npy_with(header, data_bytes);
  return error_of([&] { read_npy(bytes, nullptr, "x.npy"); });
}

TEST(NpyTest, ArraysByNumPy) {
  for (const char* name : {"c_order.npy", "fortran_order.npy"}) {
    const HostTensor grid = read(name);
    EXPECT_EQ(grid.dtype, DType::kF32);
    EXPECT_THAT(grid.sizes, ElementsAre(2, 3));
    EXPECT_THAT(first_values(grid, 6), ElementsAre(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)) << name;
  }
  EXPECT_THAT(read("fortran_order.npy").strides, ElementsAre(1, 2));
  EXPECT_THAT(first_values(read("big_endian_i4.npy"), 3), ElementsAre(1, -2, 70000));
  EXPECT_EQ(format_element(read("big_endian_c16.npy"), 0), "1.5-2j");
  EXPECT_EQ(read("bool.npy").dtype, DType::kBool);
  EXPECT_THAT(first_values(read("bool.npy"), 2), ElementsAre(1, 0));
  EXPECT_TRUE(read("scalar_f8.npy").sizes.empty());
  EXPECT_THAT(first_values(read("scalar_f8.npy"), 1), ElementsAre(2.75));
  EXPECT_THAT(read("empty_f2.npy").sizes, ElementsAre(0, 3));
  EXPECT_EQ(format_element(read("version2_i8.npy"), 0), "1099511627776");
  EXPECT_THAT(first_values(read("version3_u2.npy"), 2), ElementsAre(7, 65535));
}

TEST(NpyTest, ArraysThatAreNoTensors) {
  const std::vector<std::pair<const char*, const char*>> cases = {{"structured.npy", "structured array"},
                                                                  {"object.npy", "Python objects"},
                                                                  {"unicode.npy", "'<U2'"},
                                                                  {"void2.npy", "bfloat16"}};
  for (const auto& [name, text] : cases) {
    const auto [code, message] = error_of([&] { read(name); });
    EXPECT_EQ(code, ErrorCode::kUnsupportedKind) << name;
    EXPECT_THAT(message, HasSubstr(text));
    EXPECT_THAT(message, HasSubstr(name));
  }
}

TEST(NpyTest, HeaderForms) {
  const auto bytes = npy_with(R"({"shape":(2L,),'fortran_order':False,"descr":"<i2"})", 4);
  EXPECT_THAT(read_npy(bytes, nullptr, "x.npy").sizes, ElementsAre(2));
  const auto native = npy_with("{'descr': 'f4', 'fortran_order': True, 'shape': (2, 1, 3)}  \n", 24);
  EXPECT_THAT(read_npy(native, nullptr, "x.npy").strides, ElementsAre(1, 2, 2));
}

TEST(NpyTest, BytesAndShapeMustAgree) {
  constexpr std::string_view kHeader = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  const auto [code, message] = error_with(kHeader, 23);
  EXPECT_EQ(code, ErrorCode::kFileDamaged);
  EXPECT_EQ(message, "x.npy: 6 elements of f32 need 24 bytes, 23 follow the npy header");
  EXPECT_EQ(error_with(kHeader, 25).first, ErrorCode::kFileDamaged);
  EXPECT_EQ(error_with(kHeader, 24).second, "none");
}

TEST(NpyTest, HostileHeaders) {
  const auto damaged = [](std::string_view header) {
    const auto [code, message] = error_with(header, 8);
    EXPECT_EQ(code, ErrorCode::kFileDamaged) << header << ": " << message;
  };
  damaged("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }");
  damaged("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }");
  damaged("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }");
  damaged("{'descr': '<f4', 'fortran_order': False, 'shape': (2), }");
  damaged("{'descr': '<f4', 'fortran_order': False, 'shape': (2 1), }");
  damaged("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)");
  damaged("{'descr': '<f4', 'fortran_order': False}");
  damaged("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}");
  damaged("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}");
  damaged("{'descr': '|f4', 'fortran_order': False, 'shape': (2,)}");
  damaged("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} + exit()");
  damaged("{'descr': __import__('os'), 'fortran_order': False, 'shape': (2,)}");
  damaged("{'descr");
  damaged("");
}

TEST(NpyTest, FilesThatAreNone) {
  const auto text = std::string_view("PK\x03\x04 not an array at all");
  EXPECT_EQ(error_of([&] { read_npy(std::as_bytes(std::span(text)), nullptr, "x"); }).second, "x: is no npy file");
  EXPECT_EQ(error_of([&] { read_npy({}, nullptr, "x"); }).first, ErrorCode::kFileDamaged);
  auto bytes = npy_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 8);
  bytes[6] = std::byte{9};
  EXPECT_EQ(error_of([&] { read_npy(bytes, nullptr, "x"); }).first, ErrorCode::kUnsupportedVersion);
  std::string axes = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 65; ++i) axes += "1,";
  EXPECT_EQ(error_with(axes + ")}", 4).first, ErrorCode::kFileLimits);
}

TEST(NpyTest, MutatedFilesThrowOrRead) {
  const auto file = MappedFile::open(data_path("c_order.npy"));
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bytes(file->bytes().begin(), file->bytes().end());
    bytes.resize(round % 3 == 0 ? random() % (bytes.size() + 1) : bytes.size());
    for (int i = 0; i < 2 && !bytes.empty(); ++i) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    const auto [code, message] = error_of([&] { compute_stats(read_npy(bytes, nullptr, "x")); });
    EXPECT_TRUE(code != ErrorCode::kInternal || message == "none") << message;
    refused += message == "none" ? 0 : 1;
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace tl

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/mapped_file.h"
#include "data_files.h"
#include "tensor/safetensors.h"
#include "tensor/safetensors_header.h"
#include "tensor/statistics.h"

namespace tl {
namespace {

using test::data_path;
using test::error_of;
using testing::AllOf;
using testing::HasSubstr;

std::vector<std::byte> file_with(std::uint64_t length, std::string_view header, std::size_t data_bytes) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(length >> (8 * i) & 0xff);
  text += header;
  text.append(data_bytes, '\1');
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::pair<ErrorCode, std::string> error_of_bytes(const std::vector<std::byte>& bytes) {
  return error_of([&] { SafetensorsFile::from_bytes(bytes, nullptr, "x.safetensors"); });
}

std::pair<ErrorCode, std::string> error_with(std::string_view header, std::size_t data_bytes) {
  return error_of_bytes(file_with(header.size(), header, data_bytes));
}

std::string tensor(std::string_view name, std::string_view shape, std::string_view offsets,
                   std::string_view dtype = "F32") {
  return "\"" + std::string(name) + R"(":{"dtype":")" + std::string(dtype) + R"(","shape":)" + std::string(shape) +
         R"(,"data_offsets":)" + std::string(offsets) + "}";
}

TEST(SafetensorsHostileTest, TheHelpersMakeValidFiles) {
  EXPECT_EQ(error_with("{" + tensor("input", "[2]", "[0,8]") + "}  ", 8).second, "none");
  EXPECT_EQ(error_with("{}", 0).second, "none");
}

TEST(SafetensorsHostileTest, HeaderLengths) {
  const std::string header = "{" + tensor("input", "[2]", "[0,8]") + "}";
  const auto [code, message] = error_of_bytes(file_with(1ULL << 63, header, 8));
  EXPECT_EQ(code, ErrorCode::kFileDamaged);
  EXPECT_THAT(message, AllOf(HasSubstr("9223372036854775808"), HasSubstr(std::to_string(header.size() + 8))));
  EXPECT_EQ(error_of_bytes(file_with(header.size() + 9, header, 8)).first, ErrorCode::kFileDamaged);
  EXPECT_EQ(error_of_bytes(file_with(0, header, 8)).first, ErrorCode::kFileDamaged);
  EXPECT_EQ(error_of_bytes(std::vector<std::byte>(7)).second,
            "x.safetensors: has 7 bytes, a safetensors file has at least 8");
  EXPECT_EQ(error_of_bytes({}).first, ErrorCode::kFileDamaged);
  EXPECT_EQ(error_of_bytes(file_with(100'000'001, "{", 100'000'000)).first, ErrorCode::kFileLimits);
}

TEST(SafetensorsHostileTest, Offsets) {
  const auto check = [](const std::string& tensors, std::size_t data, ErrorCode expected, std::string_view text) {
    const auto [code, message] = error_with("{" + tensors + "}", data);
    EXPECT_EQ(code, expected) << message;
    EXPECT_THAT(message, HasSubstr(std::string(text)));
  };
  check(tensor("a", "[2]", "[8,0]"), 8, ErrorCode::kFileDamaged, "tensor 'a': bytes [8, 0) end before they begin");
  check(tensor("a", "[2]", "[0,9]"), 8, ErrorCode::kFileDamaged, "bytes [0, 9) reach beyond the 8 bytes of data");
  check(tensor("a", "[274877906944]", "[0,1099511627776]"), 8, ErrorCode::kFileDamaged, "1099511627776");
  check(tensor("a", "[2]", "[0,8]") + "," + tensor("b", "[2]", "[4,12]"), 12, ErrorCode::kFileHostile,
        "tensor 'b' begins at byte 4 of the data, the one before it ends at 8");
  check(tensor("a", "[2]", "[8,16]"), 16, ErrorCode::kFileDamaged, "covered up to 0");
  check(tensor("a", "[2]", "[0,8]"), 16, ErrorCode::kFileDamaged, "cover 8 bytes of data, the file has 16");
  check(tensor("a", "[3]", "[0,16]"), 16, ErrorCode::kFileDamaged,
        "3 elements of f32 need 12 bytes, its range [0, 16) has 16");
  check(tensor("a", "[4294967296,4294967296,4]", "[0,16]"), 16, ErrorCode::kFileDamaged, "more than 2^63 - 1 elements");
  check(tensor("a", "[4611686018427387904]", "[0,0]", "F64"), 0, ErrorCode::kFileDamaged, "more than 2^64");
  check(tensor("a", "[2]", "[-8,8]"), 8, ErrorCode::kFileDamaged, "tensor 'a', data_offsets: the number -8");
  check(tensor("a", "[2]", "[0.5,8.5]"), 8, ErrorCode::kFileDamaged, "0.5");
  check(tensor("a", "[2]", "[0]"), 8, ErrorCode::kFileDamaged, "data_offsets has 1 numbers, not 2");
  check(tensor("a", "[2]", "[0,8,8]"), 8, ErrorCode::kFileDamaged, "data_offsets has 3 numbers, not 2");
  check(tensor("a", "[18446744073709551615]", "[0,8]"), 8, ErrorCode::kFileDamaged, "above 2^63 - 1");
  check(tensor("a", "[99999999999999999999]", "[0,8]"), 8, ErrorCode::kFileDamaged, "99999999999999999999");
  check(tensor("a", "[2]", "[0,8]", "F31"), 8, ErrorCode::kFileDamaged, "tensor 'a' has the unknown dtype 'F31'");
  check(tensor("a", "[2]", "[0,8]", "f32"), 8, ErrorCode::kFileDamaged, "unknown dtype 'f32'");
  check(tensor("a", "[16]", "[0,8]", "F4"), 8, ErrorCode::kUnsupportedKind, "tensor 'a' has dtype F4");
}

// What writers write is read by code of its own; a blank after the brace sends the same header to the parser of JSON.
TEST(SafetensorsHostileTest, BothReadersOfHeadersAgree) {
  const std::vector<std::string> headers = {
      "{" + tensor("a", "[2]", "[0,8]") + "," + tensor("b.c-d e", "[]", "[8,12]") + "}   ",
      "{" + tensor("a", "[9223372036854775807,0]", "[0,18446744073709551615]", "BF16") + "}",
      "{" + tensor("a", "[9223372036854775808]", "[0,8]") + "}",
      "{" + tensor("a", "[0]", "[0,18446744073709551616]") + "}",
      "{" + tensor("a", "[02]", "[0,8]") + "}",
      "{" + tensor("a", "[2,]", "[0,8]") + "}",
      "{" + tensor("a", "[,2]", "[0,8]") + "}",
      "{" + tensor("a", "[2]", "[0,8.0]") + "}",
      "{" + tensor("a", "[2]", "[00,8]") + "}",
      "{" + tensor("a", "[2e0]", "[0,8]") + "}",
      "{" + tensor("a", "[+2]", "[0,8]") + "}",
      "{" + tensor("a\\u0041", "[2]", "[0,8]") + "}",
      "{" + tensor("\xc3\xa9", "[2]", "[0,8]") + "}",
      "{" + tensor("\xff", "[2]", "[0,8]") + "}",
      "{" + tensor("a\tb", "[2]", "[0,8]") + "}",
      "{" + tensor("__metadata__", "[2]", "[0,8]") + "}",
      "{" + tensor("a", "[2]", "[0,8]") + ",}",
      "{" + tensor("a", "[2]", "[0,8]") + "}x",
      "{" + tensor("a", "[2]", "[0,8]"),
      "{" + tensor("a", "[2]", "[0,8]", "F32\\u0020") + "}",
      "{" +
          tensor("a",
                 "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
                 "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]",
                 "[0,8]") +
          "}"};
  for (const auto& header : headers) {
    const auto read = [](const std::string& text) {
      std::string entries;
      const auto [code, message] = error_of([&] {
        for (const auto& entry : parse_safetensors_header(text, "x").entries) {
          entries += entry.name + " " + std::string(short_name(entry.dtype)) + " " + std::to_string(entry.begin) + " " +
                     std::to_string(entry.end);
          for (const auto size : entry.sizes) entries += " " + std::to_string(size);
          entries += "\n";
        }
      });
      return std::pair(code, entries);
    };
    EXPECT_EQ(read(header), read("{ " + header.substr(1))) << header;
  }
}

TEST(SafetensorsHostileTest, Structure) {
  const auto code_of = [](const std::string& header) { return error_with(header, 8).first; };
  const std::string good = tensor("a", "[2]", "[0,8]");
  EXPECT_EQ(code_of("{" + good + "," + tensor("a", "[0]", "[8,8]") + "}"), ErrorCode::kFileHostile) << "a twice";
  EXPECT_EQ(code_of(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
            ErrorCode::kFileHostile);
  EXPECT_EQ(code_of(R"({"__metadata__":{"k":"1","k":"2"},)" + good + "}"), ErrorCode::kFileHostile);
  EXPECT_EQ(code_of(R"({"__metadata__":{},"__metadata__":{},)" + good + "}"), ErrorCode::kFileHostile);
  for (const std::string& header :
       std::vector<std::string>{"",
                                " {" + good + "}",
                                "[]",
                                "nonsense",
                                "{" + good,
                                "{" + good + "} x",
                                "{" + good + "}{}",
                                R"({"a":1})",
                                R"({"a":[]})",
                                R"({"a":null})",
                                R"({"a":{}})",
                                R"({"a":{"dtype":"F32","shape":[2]}})",
                                R"({"a":{"dtype":{"x":1},"shape":[2],"data_offsets":[0,8]}})",
                                R"({"a":{"dtype":["F32"],"shape":[2],"data_offsets":[0,8]}})",
                                R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})",
                                R"({"a":{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}})",
                                R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})",
                                R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"extra":1}})",
                                R"({"__metadata__":{"k":1}})",
                                R"({"__metadata__":{"k":{"deep":{"er":1}}}})",
                                R"({"__metadata__":"x"})",
                                "{\"\xff\xfe\":1}",
                                "{" + tensor("a", "[true]", "[0,8]") + "}",
                                std::string(50'000, '[')}) {
    EXPECT_EQ(code_of(header), ErrorCode::kFileDamaged) << header.substr(0, 80);
  }
  std::string axes = "[2";
  for (int i = 0; i < 64; ++i) axes += ",1";
  EXPECT_EQ(code_of("{" + tensor("a", axes + "]", "[0,8]") + "}"), ErrorCode::kFileLimits);
}

TEST(SafetensorsHostileTest, LongNamesAreShortened) {
  const auto [code, message] = error_with("{" + tensor(std::string(100'000, 'n'), "[3]", "[0,8]") + "}", 8);
  EXPECT_EQ(code, ErrorCode::kFileDamaged);
  EXPECT_LT(message.size(), 300U);
}

TEST(SafetensorsHostileTest, PublishedCases) {
  const std::filesystem::path cases = std::filesystem::path(TL_SHARED_DIR) / "cases/out";
  if (!std::filesystem::is_directory(cases)) GTEST_SKIP() << "no reference files at " << cases;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cases)) {
    const std::string name = entry.path().filename().string();
    const bool hostile = name.starts_with("case49") || name.starts_with("case50") || name == "case52_in.safetensors";
    if (!hostile || entry.path().extension() != ".safetensors") continue;
    const auto [code, message] = error_of([&] { SafetensorsFile::open(entry.path()); });
    EXPECT_EQ(exit_code_of(code), ExitCode::kFile) << name << ": " << message;
    EXPECT_NE(message, "none") << name;
    ++files;
  }
  EXPECT_GE(files, 16);
}

TEST(SafetensorsHostileTest, MutatedFilesThrowOrRead) {
  const auto file = MappedFile::open(data_path("dtypes.safetensors"));
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::byte> bytes(file->bytes().begin(), file->bytes().end());
    if (round % 4 == 0) bytes.resize(random() % bytes.size());
    for (int i = round % 3; i >= 0 && !bytes.empty(); --i)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    const auto [code, message] = error_of([&] {
      const auto parsed = SafetensorsFile::from_bytes(bytes, nullptr, "x");
      for (const SafetensorsEntry& entry : parsed.entries()) compute_stats(parsed.tensor(entry));
    });
    EXPECT_TRUE(code != ErrorCode::kInternal || message == "none") << message;
    refused += message == "none" ? 0 : 1;
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace tl

// What the header of `torchlens recorder cpp` and the Python recorder write follows the schema, and is read back as it
// was given.
#include "../../../apps/torchlens/recorders/torchlens_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/digest.h"
#include "json_schema.h"
#include "support/temp_directory.h"
#include "tensor/element.h"
#include "tlspec/foreign.h"

namespace tl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::IsEmpty;

json manifest_of(const fs::path& directory) { return json::parse(read_text(directory / "manifest.json")); }

std::vector<std::string> violations(const json& manifest) {
  test::JsonSchema schema(json::parse(read_text(fs::path(TL_SOURCE_DIR) / "schemas/tlspec_dump.schema.json")));
  return schema.violations(manifest);
}

TEST(DumpSchema, HoldsForBothRecorders) {
  EXPECT_THAT(violations(manifest_of(fs::path(TL_SOURCE_DIR) / "tests/unit/tlspec/references/nested.tlspec")),
              IsEmpty());
  const TempDirectory dir;
  const float values[] = {1, 2, 3, 4};
  {
    torchlens::Recording recording((dir / "run.tlspec").string());
    recording.input("x", values, torchlens::f32, {4});
    recording.dump("a.b", values, torchlens::f32, {2, 2}, {}, "left");
    recording.parameter("w", values, torchlens::f32, {2});
  }
  auto manifest = manifest_of(dir / "run.tlspec");
  EXPECT_THAT(violations(manifest), IsEmpty());
  manifest["entries"][0]["call"] = 0;
  manifest["files"][0]["name"] = "../x";
  EXPECT_EQ(violations(manifest).size(), 2U);
}

TEST(DumpHeader, IsReadBack) {
  const TempDirectory dir;
  const auto path = dir / "run.tlspec";
  const float values[] = {1, 2, 3, 4, 5, 6};
  torchlens::open(path.string(), false, "toy 1.0");
  torchlens::input("batch.mask", values, torchlens::f32, {6});
  torchlens::dump("blocks.0", values, torchlens::f32, {3, 2}, {1, 3});
  torchlens::dump("blocks.0", values, torchlens::f32, {2}, {3});
  torchlens::parameter("fc.weight", values, torchlens::f32, {2, 2}, {1, 2});
  torchlens::close();
  EXPECT_EQ(reference_format(path), ReferenceFormat::kRecorderDump);
  const auto dump = read_reference(path);
  EXPECT_EQ(dump.engine, "toy 1.0");
  ASSERT_EQ(dump.entries.size(), 2U);
  EXPECT_EQ(dump.entries[0].sizes, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(dump.entries[1].call, 2);
  const auto parts = dump.entries[0].value->to_host();
  const double expected[] = {1, 4, 2, 5, 3, 6};
  for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(element_as_double(parts[0].tensor, i), expected[i]);
  ASSERT_EQ(dump.inputs.size(), 1U);
  EXPECT_EQ(dump.inputs[0].name, "batch.mask");
  // Digests are those of the packed elements, as everywhere in torchlens.
  const float packed[] = {1, 3, 2, 4};
  ASSERT_EQ(dump.params.size(), 1U);
  EXPECT_EQ(dump.params[0].digest, digest_hex(std::as_bytes(std::span(packed))));
}

TEST(DumpHeader, DigestsOfEveryLengthAreXxh3) {
  std::vector<unsigned char> bytes(5000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 31 % 251);
  for (std::size_t size = 0; size <= bytes.size(); size += size < 1200 ? 1 : 67) {
    EXPECT_EQ(torchlens::detail::Xxh3::hex(bytes.data(), size),
              digest_hex(std::as_bytes(std::span(bytes.data(), size))))
        << size;
  }
}

TEST(DumpHeader, ManyTensorsAndAFailure) {
  const TempDirectory dir;
  const auto path = dir / "run.tlspec";
  const float value = 7;
  try {
    torchlens::Recording recording(path.string());
    for (int i = 0; i < 1000; ++i) recording("loop", &value, torchlens::f32, {});
    throw std::runtime_error("over");
  } catch (const std::runtime_error&) {
  }
  const auto dump = read_reference(path);
  EXPECT_EQ(dump.outcome, "failed");
  ASSERT_EQ(dump.entries.size(), 1000U);
  EXPECT_EQ(dump.entries.back().call, 1000);
  EXPECT_EQ(element_as_double(dump.entries.back().value->to_host().at(0).tensor, 0), 7);
  EXPECT_EQ(count_entries(dir.path()), 1U);
}

}  // namespace
}  // namespace tl

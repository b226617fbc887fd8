#include "tlspec/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "json_schema.h"
#include "sample_trace.h"
#include "support/temp_directory.h"
#include "tlspec/reader.h"
#include "tlspec/writer.h"

namespace tl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

test::JsonSchema manifest_schema() {
  return test::JsonSchema(json::parse(read_text(fs::path(TL_SOURCE_DIR) / "schemas/tlspec_manifest.schema.json")));
}

json sample_manifest() {
  const TempDirectory dir;
  write_tlspec(test::make_sample_trace(), dir / "run.tlspec");
  return json::parse(read_text(dir / "run.tlspec" / kManifestFile));
}

Error refusal(const std::string& text) {
  try {
    parse_manifest(text, "manifest.json");
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "accepted: " << text.substr(0, 200);
  return Error(ErrorCode::kInternal, "");
}

Error refusal_with(const char* pointer, const json& value) {
  auto document = sample_manifest();
  document[json::json_pointer(pointer)] = value;
  return refusal(document.dump());
}

TEST(Manifest, FollowsItsSchema) { EXPECT_THAT(manifest_schema().violations(sample_manifest()), IsEmpty()); }

TEST(Manifest, TheSchemaCheckSeesViolations) {
  auto document = sample_manifest();
  document["level"] = "full";
  document["run"].erase("seed");
  document["files"][0]["name"] = "../x";
  document["health"]["new_key"] = 1;
  document["run"]["inputs"][0]["min"] = "low";
  document["model"]["bytes"] = -1;
  EXPECT_EQ(manifest_schema().violations(document).size(), 6U);
}

TEST(Manifest, TheExampleOfTheDocumentationIsOne) {
  const auto text = read_text(fs::path(TL_SOURCE_DIR) / "docs/tlspec.md");
  const auto begin = text.find("```json\n");
  ASSERT_NE(begin, std::string::npos);
  const auto example = text.substr(begin + 8, text.find("```", begin + 8) - begin - 8);
  EXPECT_THAT(manifest_schema().violations(json::parse(example)), IsEmpty());
  const auto manifest = parse_manifest(example, "docs/tlspec.md");
  EXPECT_EQ(manifest.level, Level::kPortable);
  EXPECT_EQ(manifest.run.model_class, "Net");
  EXPECT_EQ(manifest.files.size(), 3U);
}

TEST(Manifest, KeysStandInTheDocumentedOrder) {
  const TempDirectory dir;
  write_tlspec(test::make_sample_trace(), dir / "run.tlspec");
  const auto document = nlohmann::ordered_json::parse(read_text(dir / "run.tlspec" / kManifestFile));
  std::vector<std::string> keys;
  for (const auto& item : document.items()) keys.push_back(item.key());
  EXPECT_THAT(keys, testing::ElementsAre("format", "version", "producer", "kind", "level", "model", "run", "outcome",
                                         "capture_verified", "capture_verification_reason", "health", "counts",
                                         "graph_shape_hash", "files"));
}

TEST(Manifest, FormatAndParseAreInverse) {
  Manifest manifest;
  manifest.producer_name = "torchlens";
  manifest.capture_verified = false;
  manifest.capture_verification_reason = "two ops differ";
  manifest.level = Level::kAudit;
  manifest.run.health.unknown_ops = {"custom::op"};
  manifest.counts = {{"ops", 3}};
  manifest.files = {{"columns.safetensors", 8, std::string(32, '0'), false},
                    {"timing.safetensors", 8, std::string(32, '1'), true}};
  const auto text = format_manifest(manifest);
  EXPECT_EQ(format_manifest(parse_manifest(text, "m")), text);
}

TEST(Manifest, OnlyANegativeVerdictSurvives) {
  const TempDirectory dir;
  const auto trace = test::make_sample_trace();
  WriteOptions options{.force = true};
  EXPECT_EQ((write_tlspec(trace, dir / "run.tlspec", options), read_manifest(dir / "run.tlspec").capture_verified),
            std::nullopt);
  options.capture_verified = false;
  options.capture_verification_reason = "payload of relu_1_2 differs";
  write_tlspec(trace, dir / "run.tlspec", options);
  EXPECT_EQ(read_manifest(dir / "run.tlspec").capture_verified, false);
  EXPECT_EQ(read_manifest(dir / "run.tlspec").capture_verification_reason, "payload of relu_1_2 differs");
  options.capture_verified = true;
  write_tlspec(trace, dir / "run.tlspec", options);
  EXPECT_EQ(read_manifest(dir / "run.tlspec").capture_verified, std::nullopt);
}

TEST(Manifest, NamesThatAreNoUtf8AreWritten) {
  Manifest manifest;
  manifest.run.model_file = "\xff.pt";
  EXPECT_EQ(parse_manifest(format_manifest(manifest), "m").run.model_file, "\\xff.pt");
}

TEST(Manifest, UnknownKeysAreIgnored) {
  auto document = sample_manifest();
  document["later"] = json::array({1, 2});
  EXPECT_EQ(parse_manifest(document.dump(), "m").run.seed, 7);
}

TEST(Manifest, OtherVersionsKindsAndLevelsAreRefused) {
  const auto version = refusal_with("/version", 2);
  EXPECT_EQ(version.code, ErrorCode::kUnsupportedVersion);
  EXPECT_THAT(version.message, HasSubstr("has format version 2, this build reads 1 to 1"));
  EXPECT_EQ(refusal_with("/version", 0).code, ErrorCode::kUnsupportedVersion);
  EXPECT_EQ(refusal_with("/kind", "bundle").code, ErrorCode::kUnsupportedKind);
  EXPECT_EQ(refusal_with("/level", "runnable").code, ErrorCode::kUnsupportedKind);
  EXPECT_EQ(refusal_with("/format", "other").code, ErrorCode::kNotATrace);
  EXPECT_EQ(refusal("{}").code, ErrorCode::kNotATrace);
  EXPECT_EQ(refusal(R"({"tlspec_version": 9})").code, ErrorCode::kUnsupportedKind);
}

TEST(Manifest, WrongTypesNameKeyAndBoth) {
  EXPECT_THAT(refusal_with("/run/threads", "4").message,
              testing::StrEq("manifest.json: run.threads is of type string, not an integer"));
  EXPECT_THAT(refusal_with("/run/seed", 18446744073709551615ULL).message, HasSubstr("above 2^63 - 1"));
  EXPECT_THAT(refusal_with("/files", 3).message, HasSubstr("files is of type number, not a list"));
  EXPECT_THAT(refusal_with("/files/0", 3).message, HasSubstr("files[0] is of type number, not an object"));
  EXPECT_THAT(refusal_with("/files/0/bytes", -5).message, HasSubstr("files[0].bytes is -5"));
  EXPECT_THAT(refusal_with("/files/0/digest", "12").message, HasSubstr("files[0].digest has 2 digits, not 32"));
  EXPECT_THAT(refusal_with("/run/outputs/0/top/0", json::array({1})).message, HasSubstr("top is no list of"));
  EXPECT_THAT(refusal_with("/model", nullptr).message, HasSubstr("model is of type null, not an object"));
  EXPECT_THAT(refusal_with("/health/nonfinite", json::array({1})).message, HasSubstr("not a list of strings"));
}

TEST(Manifest, MissingPartsAreNamed) {
  for (const char* key : {"producer", "model", "run", "outcome", "health", "counts", "files"}) {
    auto document = sample_manifest();
    document.erase(key);
    EXPECT_THAT(refusal(document.dump()).message, HasSubstr(std::string(key) + " is missing"));
  }
}

TEST(Manifest, FileNamesArePlainAndDistinct) {
  for (const char* name :
       {"", ".", "..", "/etc/passwd", "a/b", "../x", "a\\b", ".hidden", "a b", "a\n", "manifest.json", "\xC3\xA9"}) {
    EXPECT_EQ(refusal_with("/files/0/name", name).code, ErrorCode::kFileHostile) << name;
  }
  EXPECT_EQ(refusal_with("/files/0/name", std::string(300, 'a')).code, ErrorCode::kFileHostile);
  EXPECT_EQ(refusal_with("/files/0/name", "timing.safetensors").code, ErrorCode::kFileHostile);
}

TEST(Manifest, HostileJsonIsRefused) {
  EXPECT_EQ(refusal(R"({"format": 1, "format": 2})").code, ErrorCode::kFileHostile);
  EXPECT_EQ(refusal(R"({"a": {"b": 1, "b": 1}})").code, ErrorCode::kFileHostile);
  EXPECT_EQ(refusal(std::string(33, '[') + std::string(33, ']')).code, ErrorCode::kFileLimits);
  EXPECT_EQ(refusal(std::string(100'000, '[')).code, ErrorCode::kFileLimits);
  EXPECT_EQ(refusal(std::string(std::size_t{17} << 20, ' ')).code, ErrorCode::kFileLimits);
  for (const char* text : {"", "{", "{} {}", "nul", "{\"a\": 1e999}", "{\"\xff\": 1}", "{'a': 1}", "{\"a\": NaN}"}) {
    EXPECT_EQ(refusal(text).code, ErrorCode::kFileDamaged) << text;
  }
  EXPECT_EQ(refusal("[]").code, ErrorCode::kFileDamaged);
}

TEST(Manifest, LevelsByName) {
  EXPECT_EQ(level_from_name("audit"), Level::kAudit);
  EXPECT_EQ(level_from_name(to_string(Level::kPortable)), Level::kPortable);
  EXPECT_EQ(level_from_name("runnable"), std::nullopt);
  EXPECT_EQ(level_from_name(""), std::nullopt);
}

TEST(Manifest, WhatIsNoRecordingIsNamed) {
  const TempDirectory dir;
  const auto refused = [&](const fs::path& path, ErrorCode code, const char* text) {
    try {
      read_manifest(path);
      ADD_FAILURE() << "accepted " << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, code) << error.message;
      EXPECT_THAT(error.message, HasSubstr(text));
    }
  };
  refused(dir / "none", ErrorCode::kFileMissing, "none");
  refused(dir.path(), ErrorCode::kNotATrace, "is empty");
  std::ofstream(dir / "a.safetensors") << "x";
  refused(dir / "a.safetensors", ErrorCode::kNotATrace, "is a file, a recording is a directory");
  refused(dir.path(), ErrorCode::kNotATrace, "holds safetensors files");
  std::ofstream(dir / "config.json") << "{}";
  refused(dir.path(), ErrorCode::kNotATrace, "looks like a folder of a Hugging Face model");
  fs::create_directory(dir / "manifest.json");
  refused(dir.path(), ErrorCode::kFileHostile, "is no regular file");
}

TEST(Manifest, RecordingsOfThePythonPackageAreRefused) {
  const auto example = fs::path(TL_SHARED_DIR) / "reference/tlspec_examples/base.tlspec";
  if (!fs::exists(example)) GTEST_SKIP() << example << " is not there";
  try {
    read_tlspec(example);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kUnsupportedKind);
    EXPECT_THAT(error.message, HasSubstr("Python package TorchLens"));
    EXPECT_FALSE(error.hint.empty());
  }
}

}  // namespace
}  // namespace tl

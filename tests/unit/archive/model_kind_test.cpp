#include "archive/model_kind.h"

#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "test_files.h"

namespace tl {
namespace {

using test::error_of;
using test::fixture;
using test::make_zip;
using test::stored;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelKinds : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("model_kind_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& content) {
    const auto path = folder_ / "model.pt";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  ModelFileInfo inspect(const std::string& content) { return inspect_model_file(write(content)); }

  std::filesystem::path folder_;
};

TEST_F(ModelKinds, ToldByFirstBytes) {
  using enum ModelKind;
  const std::map<std::string, ModelKind> cases = {
      {"", kEmpty},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", kLfsPointer},
      {"\n <!DOCTYPE HTML><html></html>", kHtml},
      {"<html lang=en>", kHtml},
      {std::string("\x93NUMPY\x01\x00", 8), kNpy},
      {std::string("\x02\0\0\0\0\0\0\0{}", 10), kSafetensors},
      {std::string("\x80\x04N.", 4), kEagerPickle},
      {"hello, wörld\n", kText},
      {"{\"a\": 1}", kText},
      {std::string("GGUF\x03\0\0\0", 8), kOther},
      {std::string("\0\1\2\3\4\5\6\7", 8), kOther},
      // onnx.ModelProto: ir_version = 9, producer_name = "pytorch", graph = {name = "g"} (field numbers of onnx.proto)
      {std::string("\x08\x09\x12\x07pytorch\x3a\x03\x12\x01g", 16), kOnnx},
      {std::string("\x08\x09\x12\x7fpytorch", 11), kOther},
  };
  for (const auto& [content, kind] : cases) EXPECT_EQ(inspect(content).kind, kind) << content;
  EXPECT_EQ(inspect(std::string("GGUF\x03\0\0\0", 8)).detail, "a GGUF file");
}

TEST_F(ModelKinds, ToldByEntries) {
  using enum ModelKind;
  const auto kind = [&](const std::vector<test::ZipPiece>& pieces) { return inspect(make_zip(pieces)).kind; };
  EXPECT_EQ(kind({stored("m/data.pkl", "\x80\x02N."), stored("m/code/x.py", ""), stored("m/constants.pkl", "")}),
            kTorchScript);
  EXPECT_EQ(kind({stored("m/data.pkl", ""), stored("m/bytecode.pkl", ""), stored("m/constants.pkl", "")}),
            kLiteInterpreter);
  EXPECT_EQ(kind({stored("m/archive_format", "pt2"), stored("m/models/model.json", "{}")}), kExportedProgram);
  EXPECT_EQ(kind({stored("m/archive_format", "pt2"), stored("m/data/aotinductor/model/a.so", "")}), kAotInductor);
  EXPECT_EQ(kind({stored("serialized_exported_program.json", "{}"), stored("version", "8.7")}), kExportedProgram);
  EXPECT_EQ(kind({stored("arr_0.npy", "")}), kNpz);
  EXPECT_EQ(kind({stored("readme.txt", "")}), kZipOther);
  EXPECT_EQ(kind({}), kZipOther);
}

TEST_F(ModelKinds, ReadsNumbersOfTheArchive) {
  const ModelFileInfo info = inspect(
      make_zip({stored("m/.data/version", "6\n"), stored("m/archive_format", "pt2"), stored("m/archive_version", "0"),
                stored("m/models/b.json", "{}"), stored("m/models/a.json", "{}"), stored("m/models/a/x.json", "{}")}));
  EXPECT_EQ(info.root, "m/");
  EXPECT_EQ(info.format_version, 6);
  EXPECT_EQ(info.archive_format, "pt2");
  EXPECT_EQ(info.archive_version, "0");
  EXPECT_THAT(info.models, ElementsAre("b", "a", "a/x"));
}

TEST_F(ModelKinds, RefusesVersionsOutOfRange) {
  const auto refusal = [&](const std::string& version) {
    return refusal_for(inspect(make_zip({stored("m/data.pkl", "\x80\x02N."), stored("m/code/x.py", ""),
                                         stored("m/constants.pkl", ""), stored("m/version", version)})));
  };
  EXPECT_FALSE(refusal("3\n"));
  EXPECT_FALSE(refusal("10"));
  ASSERT_TRUE(refusal("11"));
  EXPECT_EQ(refusal("11")->code, ErrorCode::kUnsupportedVersion);
  EXPECT_EQ(exit_code_of(refusal("11")->code), ExitCode::kRefused);
  EXPECT_EQ(refusal("0")->code, ErrorCode::kUnsupportedVersion);
  EXPECT_EQ(refusal("x")->code, ErrorCode::kFileDamaged);
}

TEST_F(ModelKinds, DirectoriesAndMissingFiles) {
  EXPECT_EQ(inspect_model_file(folder_).kind, ModelKind::kDirectory);
  EXPECT_EQ(refusal_for(inspect_model_file(folder_))->code, ErrorCode::kNotAModel);
  std::ofstream(folder_ / "manifest.json") << "{}";
  std::ofstream(folder_ / "columns.safetensors") << "";
  EXPECT_EQ(inspect_model_file(folder_).kind, ModelKind::kTlspec);
  EXPECT_EQ(error_of([&] { inspect_model_file(folder_ / "absent.pt"); }).code, ErrorCode::kFileMissing);
}

TEST_F(ModelKinds, SaysWhatTorchSaveWrote) {
  EXPECT_EQ(inspect_model_file(fixture("views.pt")).kind, ModelKind::kStateDict);
  const ModelFileInfo shell = inspect_model_file(fixture("shell.pt"));
  EXPECT_EQ(shell.kind, ModelKind::kEagerPickle);
  EXPECT_THAT(shell.foreign_globals, ElementsAre("posix.system"));
  EXPECT_THAT(refusal_for(shell)->message, HasSubstr("posix.system"));
  EXPECT_EQ(inspect_model_file(fixture("legacy.pt")).kind, ModelKind::kLegacyTorchSave);
}

TEST(ModelKind, EveryKindHasWords) {
  for (int i = 0; i <= static_cast<int>(ModelKind::kOther); ++i) {
    const auto kind = static_cast<ModelKind>(i);
    EXPECT_FALSE(describe(kind).empty());
    EXPECT_FALSE(to_string(kind).empty());
    ModelFileInfo info;
    info.path = "m.pt";
    info.kind = kind;
    info.format_version = 3;
    const auto refusal = refusal_for(info);
    EXPECT_EQ(refusal.has_value(), kind != ModelKind::kTorchScript && kind != ModelKind::kExportedProgram);
    EXPECT_TRUE(!refusal || !refusal->hint.empty());
  }
}

// The files that must be refused for what they are, with the exit codes that the reference states.
TEST(ModelKind, RefusesTheNegativeFilesOfTheZoo) {
  const auto zoo = test::shared_dir() / "zoo";
  TL_NEEDS_SHARED(zoo / "expected_refusals.json");
  const auto expected = nlohmann::json::parse(test::file_text(zoo / "expected_refusals.json"));
  const std::map<std::string, ModelKind> kinds = {{"neg_state_dict.pt", ModelKind::kStateDict},
                                                  {"neg_eager_pickle.pt", ModelKind::kEagerPickle},
                                                  {"neg_old_format.pt", ModelKind::kLegacyTorchSave},
                                                  {"neg_empty.pt", ModelKind::kEmpty},
                                                  {"neg_random.zip.pt", ModelKind::kZipOther}};
  std::size_t seen = 0;
  for (const auto& [name, row] : expected.items()) {
    if (!name.starts_with("neg_") || !name.ends_with(".pt")) continue;
    SCOPED_TRACE(name);
    const int exit_code = row.at("exit").get<int>();
    if (name == "neg_truncated.ts.pt") {
      EXPECT_EQ(static_cast<int>(exit_code_of(error_of([&] { inspect_model_file(zoo / name); }).code)), exit_code);
    } else {
      const ModelFileInfo info = inspect_model_file(zoo / name);
      EXPECT_EQ(info.kind, kinds.at(name));
      const auto refusal = refusal_for(info);
      ASSERT_TRUE(refusal);
      EXPECT_EQ(static_cast<int>(exit_code_of(refusal->code)), exit_code);
      EXPECT_THAT(refusal->message, HasSubstr(name));
    }
    ++seen;
  }
  EXPECT_EQ(seen, 6u);
}

TEST(ModelKind, KnowsEveryModelOfTheZoo) {
  TL_NEEDS_SHARED(test::shared_dir() / "zoo");
  std::size_t models = 0;
  for (const std::string ending : {".ts.pt", ".trace.pt", ".pt2"}) {
    for (const auto& path : test::shared_files("zoo", ending)) {
      if (path.filename() == "neg_truncated.ts.pt") continue;
      const ModelFileInfo info = inspect_model_file(path);
      EXPECT_EQ(info.kind, ending == ".pt2" ? ModelKind::kExportedProgram : ModelKind::kTorchScript) << path;
      EXPECT_FALSE(refusal_for(info)) << path;
      EXPECT_TRUE(info.format_version) << path;
      ++models;
    }
  }
  for (const auto& path : test::shared_files("zoo", ".safetensors")) {
    EXPECT_EQ(inspect_model_file(path).kind, ModelKind::kSafetensors) << path;
  }
  EXPECT_GT(models, 150u);
}

}  // namespace
}  // namespace tl

#include "model_screen.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "archive/model_kind.h"
#include "archive/zip_directory.h"
#include "core/error.h"
#include "json_output.h"
#include "support/temp_directory.h"
#include "unit/tlspec/json_schema.h"

namespace tl::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

KnownOperators some_operators() {
  return {
      "LibTorch 0", {"aten::add", "aten::from_file", "aten::linear", "aten::relu", "aten::relu_", "aten::save"}, {}};
}

fs::path model(const std::string& name) { return fs::path(TL_SOURCE_DIR) / "tests/models" / name; }

ordered_json screen_of(const fs::path& path, bool with_list = true) {
  const auto known = some_operators();
  return model_screen(inspect_model_file(path), with_list ? &known : nullptr);
}

std::string text_of(const ordered_json& screen, bool everything = false) {
  std::FILE* file = std::tmpfile();
  Output out(file, false);
  print_model_screen(out, screen, everything);
  out.flush();
  std::rewind(file);
  std::string text;
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, got);
  std::fclose(file);
  return text;
}

std::vector<std::string> violations(const ordered_json& screen) {
  static test::JsonSchema schema(
      nlohmann::json::parse(read_text(fs::path(TL_SOURCE_DIR) / "schemas/show_model.schema.json")));
  return schema.violations(nlohmann::json::parse(json_envelope("show", true, screen)));
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code absent;
  for (const auto& item : fs::directory_iterator(folder, absent)) {
    if (item.is_regular_file()) files.push_back(item.path());
  }
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

TEST(ModelScreen, OfEveryFileFollowsItsSchema) {
  std::size_t shown = 0;
  for (const auto& folder : {model(""), fs::path(TL_SOURCE_DIR) / "tests/torch/data", fs::path(TL_SHARED_DIR) / "zoo",
                             fs::path(TL_SHARED_DIR) / "cases/out"}) {
    for (const auto& file : files_of(folder)) {
      ordered_json screen;
      try {
        screen = screen_of(file);
      } catch (const Error& error) {
        EXPECT_EQ(exit_code_of(error.code), ExitCode::kFile) << file << ": " << error.message;
        continue;
      }
      ++shown;
      EXPECT_THAT(violations(screen), IsEmpty()) << file;
      EXPECT_THAT(text_of(screen), HasSubstr("looked at only")) << file;
    }
  }
  EXPECT_GE(shown, 20u);
}

TEST(ModelScreen, ASchemaViolationIsSeen) {
  auto screen = screen_of(model("linear.ts.pt"));
  screen["modules"][0]["colour"] = "red";
  EXPECT_THAT(violations(screen), Not(IsEmpty()));
}

TEST(ModelScreen, SaysWhatIsMissingHere) {
  const auto known = some_operators();
  const auto path = model("small_resnet.ts.pt");
  const auto screen = model_screen(inspect_model_file(path), &known);
  std::vector<std::string> names;
  for (const auto& use : screen["missing"]) names.push_back(use["name"]);
  EXPECT_THAT(names, testing::Contains("aten::conv2d"));
  EXPECT_THAT(names, Not(testing::Contains("aten::relu")));
  EXPECT_THAT(text_of(screen), HasSubstr("aten::conv2d"));
  const auto linear = screen_of(model("linear.ts.pt"));
  EXPECT_THAT(text_of(linear), HasSubstr("missing     none: LibTorch 0 knows all of them"));
}

TEST(ModelScreen, WithoutAListTheMissingAreUnknown) {
  const auto screen = screen_of(model("linear.ts.pt"), false);
  EXPECT_TRUE(screen["missing"].is_null());
  EXPECT_TRUE(screen["engine"].is_null());
  EXPECT_THAT(violations(screen), IsEmpty());
  EXPECT_THAT(text_of(screen), HasSubstr("missing     unknown"));
}

TEST(ModelScreen, NamesWhatReachesOutsideWithItsPlace) {
  const auto text = text_of(screen_of(model("writing.ts.pt")));
  EXPECT_THAT(text, HasSubstr("aten::save"));
  EXPECT_THAT(text, HasSubstr("Writing.__setstate__ runs while it is loaded"));
  EXPECT_THAT(text, HasSubstr("--allow-op aten::save"));
  EXPECT_THAT(text_of(screen_of(model("reaching.ts.pt"))), HasSubstr("aten::from_file"));
}

TEST(ModelScreen, CutsAFigureThatIsLong) {
  const auto screen = screen_of(model("small_resnet.ts.pt"));
  const auto text = text_of(screen);
  EXPECT_LE(lines_of(text).size(), 60u);
  EXPECT_THAT(text, HasSubstr("more inside (--all shows them)"));
  EXPECT_THAT(text, HasSubstr("Block of 6"));
  const auto all = text_of(screen, true);
  EXPECT_THAT(all, Not(HasSubstr("--all")));
  EXPECT_THAT(all, HasSubstr("downsample"));
  for (const auto& line : lines_of(text)) EXPECT_LE(line.size(), 110u) << line;
}

// The whole text, as it is to be read; the file never changes.
TEST(ModelScreen, ReadsLikeThis) {
  EXPECT_EQ(text_of(screen_of(model("writing.ts.pt"))),
            R"(writing.ts.pt   TorchScript script · Writing · baked · f32 · 2.5 KB
  forward(Tensor x) -> Tensor

constants   1 tensor, 3 elements, 12 B   other tensors of attributes and code
restored    the model   by __setstate__, which runs while the file is loaded
operators   2: aten::add, aten::save
missing     none: LibTorch 0 knows all of them
unsafe      aten::save   code/__torch__.py:19   Writing.__setstate__ runs while it is loaded
hint        trace refuses such a file; to run it all the same:
            --allow-op aten::save
sources     1 file of code, 600 B
file        digest f70abf07ce17953b67dc5fb4eda042b7, format version 3,
            8 entries, checksums good
            looked at only: nothing of the file was executed
)");
}

TEST(ModelScreen, EscapesNamesOfFiles) {
  const TempDirectory dir;
  const auto path = dir / "a\n::error::b.pt";
  fs::copy_file(model("linear.ts.pt"), path);
  for (const auto& line : lines_of(text_of(screen_of(path)))) EXPECT_FALSE(line.starts_with("::")) << line;
}

TEST(ModelScreen, ADamagedWeightIsSaid) {
  const TempDirectory dir;
  auto bytes = read_text(model("linear.ts.pt"));
  const auto at = ZipDirectory(std::as_bytes(std::span(bytes)), "m.pt").at("linear.ts/data/0").data_offset;
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  std::ofstream(dir / "m.pt", std::ios::binary) << bytes;
  try {
    screen_of(dir / "m.pt");
    FAIL() << "shown as if it were whole";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kFileDamaged) << error.message;
  }
}

}  // namespace
}  // namespace tl::cli

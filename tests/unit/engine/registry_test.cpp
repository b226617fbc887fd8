#include "engine/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/build_id.h"
#include "core/error.h"
#include "support/temp_directory.h"

namespace tl {
namespace {

using testing::HasSubstr;

Error refused(const std::function<void()>& open) {
  try {
    open();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "opened";
  return Error(ErrorCode::kInternal, "");
}

TEST(Registry, AMissingPluginNamesThePlaces) {
  const auto error = refused([] { open_engine("/nonexistent/bin"); });
  EXPECT_EQ(error.code, ErrorCode::kEngineMissing);
  EXPECT_THAT(error.note, HasSubstr("looked at /nonexistent/bin/torchlens_torch.so\n"));
  EXPECT_THAT(error.note, HasSubstr("looked at /nonexistent/lib"));
  EXPECT_THAT(error.hint, HasSubstr("scripts/setup"));
}

TEST(Registry, OpensAPluginOfThisBuild) { EXPECT_EQ(open_engine_file(TL_FAKE_PLUGIN)->version(), "fake 1.0"); }

TEST(Registry, FindsThePluginBesideTheExecutable) {
  const TempDirectory directory;
  std::filesystem::copy_file(TL_FAKE_PLUGIN, directory / kEngineFileName);
  EXPECT_EQ(open_engine(directory.path())->version(), "fake 1.0");
}

TEST(Registry, AnotherBuildIsRefusedWithBothIds) {
  const auto error = refused([] { open_engine_file(TL_WRONG_PLUGIN); });
  EXPECT_EQ(error.code, ErrorCode::kEngineMismatch);
  EXPECT_THAT(error.message, HasSubstr("built as 0123456789abcdef0123456789abcdef"));
  EXPECT_THAT(error.message, HasSubstr(build_id()));
}

TEST(Registry, AMissingLibTorchIsTold) {
  const TempDirectory directory;
  std::filesystem::copy_file(TL_UNLINKED_PLUGIN, directory / kEngineFileName);
  const auto error = refused([&] { open_engine(directory.path()); });
  EXPECT_EQ(error.code, ErrorCode::kLibTorchMissing);
  EXPECT_THAT(error.message, HasSubstr("libtorch_absent.so: cannot open shared object file"));
  EXPECT_THAT(error.hint, HasSubstr("scripts/setup"));
}

TEST(Registry, SomethingElseIsNoPlugin) {
  const TempDirectory directory;
  std::ofstream(directory / kEngineFileName) << "not a library";
  EXPECT_EQ(refused([&] { open_engine(directory.path()); }).code, ErrorCode::kEngineMissing);
}

}  // namespace
}  // namespace tl

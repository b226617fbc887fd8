#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>
#include <vector>

#include "torch/recording.h"
#include "torch/small_files.h"
#include "torch/zoo_files.h"
#include "trace/invariants.h"
#include "trace/text.h"

namespace tl {
namespace {

constexpr std::int64_t kSeed = 1234;

class Recordings : public testing::TestWithParam<test::ZooFile> {};

// Every invariant holds, and the text form carries every column: what is read back writes the same.
TEST_P(Recordings, AreConsistent) {
  const auto trace = test::record_file(GetParam(), kSeed);
  ASSERT_TRUE(trace.run.outcome.complete()) << trace.run.outcome.reason;
  std::vector<std::string> findings;
  for (const auto& finding : check_invariants(trace)) findings.push_back(finding.check + ": " + finding.message);
  EXPECT_THAT(findings, testing::IsEmpty());
  const auto text = to_text(trace);
  EXPECT_EQ(to_text(trace_from_text(text)), text);
}

INSTANTIATE_TEST_SUITE_P(Zoo, Recordings, testing::ValuesIn(test::all_runnable_files()),
                         [](const auto& instance) { return test::case_name(instance.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Recordings);

/// Files of different kinds: convolutions, attention, recurrence, branches, random numbers, training, quantised and
/// sparse weights, nested containers, in-place writes; exported ones with control flow, mutations and vmap.
std::vector<test::ZooFile> files_of_each_kind() {
  auto files = test::all_runnable_files();
  const std::vector<std::string> chosen = {
      "resnet_narrow.ts.pt", "gpt2_tiny.trace.pt",   "script_rnn.ts.pt",    "branch_net.ts.pt", "random_ops.ts.pt",
      "train_bn.ts.pt",      "quant_dynamic.ts.pt",  "sparse_weight.ts.pt", "nested_io.ts.pt",  "inplace_views.ts.pt",
      "hop_while_loop.pt2",  "hop_cond_modules.pt2", "train_bn.core.pt2",   "vmap_inside.pt2",  "random_ops.pt2"};
  std::erase_if(files, [&](const auto& file) { return std::ranges::find(chosen, file.name()) == chosen.end(); });
  return files;
}

class Repeated : public testing::TestWithParam<test::ZooFile> {};

TEST_P(Repeated, RunsRecordTheSame) {
  EXPECT_EQ(to_text(test::record_file(GetParam(), kSeed)), to_text(test::record_file(GetParam(), kSeed)));
}

INSTANTIATE_TEST_SUITE_P(Zoo, Repeated, testing::ValuesIn(files_of_each_kind()),
                         [](const auto& instance) { return test::case_name(instance.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Repeated);

TEST(RecordingsSetup, FilesOfEachKindAreThere) {
  if (test::runnable_files().empty()) GTEST_SKIP() << "the folder " << TL_SHARED_DIR << " beside the project is absent";
  EXPECT_EQ(files_of_each_kind().size(), 15u);
}

}  // namespace
}  // namespace tl

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "torch/executions.h"
#include "torch/plain_calls.h"
#include "torch/recording.h"
#include "torch/small_files.h"
#include "trace/tables.h"

namespace tl {
namespace {

using test::difference;
using test::PlainRun;
using test::Tally;

constexpr std::int64_t kSeed = 1234;

/// Written buffers by address, equal neighbours once.
using BufferValues = std::map<std::string, std::vector<TensorRefPtr>>;

void add_value(BufferValues& values, const std::string& address, TensorRefPtr value) {
  auto& list = values[address];
  if (list.empty() || !difference(*list.back(), *value).empty()) list.push_back(std::move(value));
}

void compare_buffers(const Capture& capture, const PlainRun& plain, Tally& tally) {
  BufferValues ours, theirs;
  for (std::size_t i = 0; i < capture.events.size(); ++i) {
    const auto& event = capture.events[i];
    if (event.kind != OpKind::kBuffer || event.payload == PayloadId::kNone) continue;
    add_value(ours, std::string(capture.strings[event.address]), capture.payloads->tensor(PayloadId{event.payload}));
  }
  for (const auto& write : plain.buffer_writes) add_value(theirs, write.address, write.value);
  for (auto& [address, values] : theirs) {
    auto& list = ours[address];
    // The first version of a buffer that was read is no write.
    const auto skip = list.size() > values.size() ? list.size() - values.size() : 0;
    if (skip > 1 || list.size() < values.size()) {
      tally.find("buffer " + address + ": " + std::to_string(values.size()) + " writes, " +
                 std::to_string(list.size()) + " versions");
      continue;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto text = difference(*list[i + skip], *values[i]);
      if (!text.empty()) tally.find("buffer " + address + ", write " + std::to_string(i) + ":" + text);
      ++tally.compared;
    }
  }
  for (const auto& [address, values] : ours) {
    if (!theirs.contains(address) && values.size() > 1)
      tally.find("buffer " + address + " has versions but was not written");
  }
}

class Payloads : public testing::TestWithParam<test::ZooFile> {
 protected:
  void check(bool witness) {
    const auto& file = GetParam();
    const auto session = test::engine().load(test::model_request(file));
    auto request = test::request_for(file, session->info().signature, kSeed);
    const auto plain = test::run_observed(file.model, request, {.keep_outputs = true, .count_nodes = false});
    ASSERT_EQ(plain.error, "");
    request.witness = witness;
    Capture capture;
    session->run(request, capture);
    ASSERT_TRUE(capture.run.outcome.complete()) << capture.run.outcome.reason;
    Tally tally;
    test::compare_calls(capture, plain.calls, tally);
    compare_buffers(capture, plain, tally);
    EXPECT_EQ(tally.num_findings, 0u) << tally.findings;
    EXPECT_GT(tally.compared + tally.flow, 0u);
    RecordProperty("compared", static_cast<int>(tally.compared));
  }
};

// Copies made when each call ended, in LibTorch's own interpreter, are what the recorded payloads hold after the run.
TEST_P(Payloads, AreWhatEachCallReturned) { check(false); }

// The same without exchanging storages under in-place operators.
TEST_P(Payloads, AreTheSameWithoutSwapping) { check(true); }

INSTANTIATE_TEST_SUITE_P(Zoo, Payloads, testing::ValuesIn(test::oracle_files()),
                         [](const auto& instance) { return test::case_name(instance.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Payloads);

}  // namespace
}  // namespace tl

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "torch/call_table.h"
#include "torch/executions.h"
#include "torch/plain_calls.h"
#include "torch/recording.h"
#include "torch/small_files.h"
#include "trace/tables.h"

// Completeness and payloads of exported programs, against a bare run of the same graph through the dispatcher that
// LibTorch's RecordFunction observes from outside.
namespace tl {
namespace {

using test::PlainCall;
using Counts = std::map<std::string, std::int64_t>;

constexpr std::int64_t kSeed = 1234;

/// Calls at top level that instructions without an operator of the dispatcher may make: by name without overload.
const std::map<std::string, std::vector<std::string>>& calls_of_others() {
  static const std::map<std::string, std::vector<std::string>> calls = {
      // c10 and functorch wrap and unwrap by ordinary views.
      {"functorch::_add_batch_dim", {}},
      {"functorch::_remove_batch_dim", {"aten::movedim", "aten::unsqueeze", "aten::expand"}},
  };
  return calls;
}

class ExportedCalls : public testing::TestWithParam<test::ZooFile> {
 protected:
  /// Counts the calls before the witness begins: those that bind the inputs.
  void SetUp() override {
    const auto session = test::engine().load(test::model_request(GetParam()));
    auto request = test::request_for(GetParam(), session->info(), kSeed);
    request.witness = true;
    Capture capture;
    const test::CallObserver watch(false);
    session->run(request, capture);
    ASSERT_TRUE(capture.run.outcome.complete()) << capture.run.outcome.reason;
    binding_calls_ = watch.calls().size() - static_cast<std::size_t>(capture.run.health.dispatcher_calls);
  }

  struct Recorded {
    Capture capture;
    std::vector<PlainCall> calls;  ///< what the run did at top level, binding left out
  };

  /// The bare run of a fresh session, observed.
  std::vector<PlainCall> plain(bool keep_outputs) {
    const auto session = test::engine().load(test::model_request(GetParam()));
    const auto request = test::request_for(GetParam(), session->info(), kSeed);
    const test::CallObserver watch(keep_outputs);
    session->run_plain(request);
    auto calls = watch.calls();
    EXPECT_GE(calls.size(), binding_calls_) << "binding the inputs is the same in both";
    calls.erase(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(std::min(binding_calls_, calls.size())));
    return calls;
  }

  /// Our executor, observed.
  Recorded record(bool witness) {
    const auto session = test::engine().load(test::model_request(GetParam()));
    auto request = test::request_for(GetParam(), session->info(), kSeed);
    request.witness = witness;
    Recorded result;
    const test::CallObserver watch(false);
    session->run(request, result.capture);
    result.calls = watch.calls();
    EXPECT_TRUE(result.capture.run.outcome.complete())
        << result.capture.run.outcome.reason << " at " << result.capture.run.outcome.boundary_label;
    result.calls.erase(result.calls.begin(), result.calls.begin() + static_cast<std::ptrdiff_t>(binding_calls_));
    return result;
  }

  void compare_payloads(bool witness) {
    const auto recorded = record(witness);
    const auto calls = plain(true);
    test::Tally tally;
    test::compare_calls(recorded.capture, calls, tally);
    EXPECT_EQ(tally.num_findings, 0u) << tally.findings;
    EXPECT_GT(tally.compared + tally.flow, 0u);
  }

  std::size_t binding_calls_ = 0;
};

std::vector<std::string> observed_names(const std::vector<PlainCall>& calls) {
  std::vector<std::string> names;
  for (const auto& call : calls) {
    if (!test::is_unobserved(call.full_name())) names.push_back(call.full_name());
  }
  return names;
}

template <typename Same>
void expect_same_order(const std::vector<std::string>& ours, const std::vector<std::string>& plain, Same same) {
  const auto [a, b] = std::ranges::mismatch(ours, plain, same);
  EXPECT_TRUE(a == ours.end() && b == plain.end())
      << ours.size() << " calls of ours, " << plain.size() << " of the bare run; first difference at "
      << (a - ours.begin()) << ": " << (a == ours.end() ? "none" : *a) << " against "
      << (b == plain.end() ? "none" : *b);
}

std::string without_overload(const std::string& name) { return name.substr(0, name.find('.', name.find("::"))); }

// The recording makes the calls of the bare run: the same ones in the same order, each once; the witness counts them.
TEST_P(ExportedCalls, AreTheSameInTheSameOrder) {
  const auto recorded = record(true);
  EXPECT_TRUE(recorded.capture.run.health.witnessed);
  EXPECT_EQ(recorded.capture.run.health.unaccounted_calls, 0);
  expect_same_order(observed_names(recorded.calls), observed_names(plain(false)), std::equal_to<>());
}

// With storages swapped under in-place operators, a call may be the out-of-place form: still one for one.
TEST_P(ExportedCalls, AreAsManyWhenStoragesAreSwapped) {
  const auto recorded = record(false);
  expect_same_order(observed_names(recorded.calls), observed_names(plain(false)), [](const auto& x, const auto& y) {
    const auto left = without_overload(x);
    const auto right = without_overload(y);
    return left == right || left + "_" == right;
  });
}

// What the executor says it ran explains every call of the bare run, and no call too many.
TEST_P(ExportedCalls, AreExplainedByTheInstructionsThatRan) {
  const auto recorded = record(false);
  const auto& capture = recorded.capture;
  Counts expected;
  Counts others;
  for (std::size_t row = 0; row < capture.executions.size(); ++row) {
    const auto name = test::full_name(capture, row);
    const auto times = static_cast<std::int64_t>(capture.executions[row]);
    if (times == 0) continue;
    if (test::is_dispatched(capture, row)) {
      if (!test::is_unobserved(name)) expected[name] += times;
      continue;
    }
    const auto known = calls_of_others().find(without_overload(name));
    if (known != calls_of_others().end()) {
      for (const auto& call : known->second) others[call] += times;
      continue;
    }
    for (const auto& call : test::table_calls(op_semantics(name).top_level_calls)) {
      others[call.name] += call.most == test::TableCall::kAny ? call.most : call.most * times;
    }
  }
  Counts seen;
  for (const auto& name : observed_names(plain(false))) ++seen[name];
  std::string differences;
  for (const auto& [name, count] : seen) {
    const auto own = expected.contains(name) ? expected.at(name) : 0;
    const auto more = others.contains(without_overload(name)) ? others.at(without_overload(name)) : 0;
    if (count < own || count > own + more) {
      differences += "  " + name + ": " + std::to_string(own) + " executions, " + std::to_string(count) + " calls\n";
    }
  }
  for (const auto& [name, count] : expected) {
    if (!seen.contains(name)) differences += "  " + name + ": " + std::to_string(count) + " executions, no call\n";
  }
  EXPECT_EQ(differences, "");
}

// Every execution of an operator that yields a tensor has its records: as many as the executor counted.
TEST_P(ExportedCalls, LeaveARecordEach) {
  const auto recorded = record(false);
  const auto& capture = recorded.capture;
  std::vector<std::int64_t> records(capture.executions.size(), 0);
  for (const auto& execution : test::executions_of(capture)) {
    if (!execution.events.empty()) ++records[execution.instruction];
  }
  for (const auto row : capture.flow.instruction) {
    if (records[static_cast<std::size_t>(row)] == 0) records[static_cast<std::size_t>(row)] = -1;
  }
  for (std::size_t row = 0; row < records.size(); ++row) {
    if (records[row] <= 0) continue;  // host values, or nothing comes out
    EXPECT_EQ(records[row], static_cast<std::int64_t>(capture.executions[row])) << test::full_name(capture, row);
  }
}

// Copies made when each call of the bare run ended are what the recorded payloads hold after the run.
TEST_P(ExportedCalls, ReturnedWhatThePayloadsHold) { compare_payloads(false); }

// The same without exchanging storages under in-place operators.
TEST_P(ExportedCalls, ReturnedTheSameWithoutSwapping) { compare_payloads(true); }

INSTANTIATE_TEST_SUITE_P(Files, ExportedCalls, testing::ValuesIn(test::runnable_exported_files()),
                         [](const auto& instance) { return test::case_name(instance.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ExportedCalls);

}  // namespace
}  // namespace tl

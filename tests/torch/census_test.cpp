#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "torch/call_table.h"
#include "torch/plain_calls.h"
#include "torch/small_files.h"
#include "trace/tables.h"

extern "C" tl::Engine* torchlens_engine_open();

namespace tl {
namespace {

using test::PlainCall;
using test::PlainNode;
using test::PlainRun;
using Counts = std::map<std::string, std::int64_t>;

constexpr std::int64_t kSeed = 1234;

// Operations that move values in and out of lists, dicts and tuples and leave no record where they yield no host value.
const std::set<std::string>& container_operations() {
  static const std::set<std::string> names = {"aten::append",
                                              "aten::__getitem__",
                                              "aten::_set_item",
                                              "aten::pop",
                                              "aten::insert",
                                              "aten::extend",
                                              "aten::clear",
                                              "aten::list",
                                              "aten::copy",
                                              "aten::slice",
                                              "aten::add",
                                              "aten::add_",
                                              "aten::mul",
                                              "aten::items",
                                              "aten::keys",
                                              "aten::values",
                                              "aten::get",
                                              "aten::update",
                                              "aten::dict",
                                              "aten::Delete",
                                              "aten::reverse",
                                              "aten::setdefault",
                                              "aten::popitem",
                                              "prim::unchecked_unwrap_optional",
                                              "aten::_unwrap_optional"};
  return names;
}

Engine& engine() {
  static const std::unique_ptr<Engine> opened(torchlens_engine_open());
  return *opened;
}

Counts counts_of(const std::vector<PlainCall>& calls) {
  Counts counts;
  for (const auto& call : calls) ++counts[call.full_name()];
  return counts;
}

std::string without_overload(const std::string& name) {
  const auto dot = name.find('.', name.find("::"));
  return name.substr(0, dot);
}

/// What the table says that executions of operators call.
struct Expected {
  Counts own;    ///< by full name: exactly
  Counts least;  ///< by name without overload, on top of `own`
  Counts most;

  void add(const std::string& full_name, bool dispatched, std::int64_t times) {
    if (dispatched) {
      if (!test::is_unobserved(full_name)) own[full_name] += times;
      return;
    }
    for (const auto& call : test::table_calls(op_semantics(full_name).top_level_calls)) {
      least[call.name] += call.least * times;
      most[call.name] += call.most == test::TableCall::kAny ? call.most : call.most * times;
    }
  }

  /// Every difference to what was seen, as text; empty if there is none.
  std::string differences(const Counts& seen) const {
    std::string text;
    Counts rest;
    for (const auto& [name, count] : seen) {
      const auto found = own.find(name);
      rest[without_overload(name)] += count - (found == own.end() ? 0 : found->second);
      if (found != own.end() && found->second > count) {
        text +=
            "  " + name + ": " + std::to_string(found->second) + " executions, " + std::to_string(count) + " calls\n";
      }
    }
    for (const auto& [name, count] : own) {
      if (!seen.contains(name)) text += "  " + name + ": " + std::to_string(count) + " executions, no call\n";
    }
    for (const auto& [name, count] : least) rest.try_emplace(name, 0);
    for (const auto& [name, count] : rest) {
      const auto low = least.contains(name) ? least.at(name) : 0;
      const auto high = most.contains(name) ? most.at(name) : 0;
      if (count < low || count > high) {
        text += "  " + name + ": " + std::to_string(count) + " calls beside its own, the table allows " +
                std::to_string(low) + " to " + std::to_string(high) + "\n";
      }
    }
    return text;
  }
};

/// Executions of every instruction that left records.
struct Recorded {
  std::map<std::size_t, std::int64_t> tensors;  ///< by instruction: first slots
  std::map<std::size_t, std::int64_t> flow;     ///< by instruction: flow rows
};

Recorded recorded(const Capture& capture) {
  Recorded result;
  std::uint32_t last = OpId::kNone;
  int last_slot = -1;
  for (std::size_t i = 0; i < capture.events.size(); ++i) {
    const auto& event = capture.events[i];
    if (event.kind != OpKind::kOperation) continue;
    if (event.instruction != last || event.slot <= last_slot) ++result.tensors[event.instruction];
    last = event.instruction;
    last_slot = event.slot;
  }
  for (const auto row : capture.flow.instruction) ++result.flow[static_cast<std::size_t>(row)];
  return result;
}

std::string full_name(const Capture& capture, std::size_t row) {
  const std::string name(capture.strings[capture.instructions.op_name[row]]);
  const std::string overload(capture.strings[capture.instructions.overload[row]]);
  return overload.empty() ? name : name + "." + overload;
}

std::uint32_t flags_of(const Capture& capture, std::size_t row) { return capture.instructions.flags[row]; }

class Census : public testing::TestWithParam<test::ZooFile> {
 protected:
  void SetUp() override {
    const auto& file = GetParam();
    ModelRequest model;
    model.path = file.model.string();
    model.threads = 1;
    session_ = engine().load(model);
    request_ = test::request_for(file, session_->info().signature, kSeed);
    static std::map<std::string, PlainRun> runs;
    const auto [found, fresh] = runs.try_emplace(file.model.string());
    if (fresh) found->second = test::run_observed(file.model, request_, {.keep_outputs = false, .count_nodes = true});
    plain_ = found->second;
    ASSERT_EQ(plain_.error, "");
  }

  /// Runs our executor under an observer of its own.
  std::vector<PlainCall> record(bool witness, Capture& capture) {
    request_.witness = witness;
    const test::CallObserver watch(false);
    session_->run(request_, capture);
    EXPECT_TRUE(capture.run.outcome.complete()) << capture.run.outcome.reason;
    auto calls = watch.calls();
    // Binding copies every tensor that was given, before anything runs.
    for (std::size_t i = test::count_tensors(request_); i > 0 && !calls.empty(); --i) {
      EXPECT_EQ(calls.front().name, "aten::clone");
      calls.erase(calls.begin());
    }
    return calls;
  }

  std::unique_ptr<Session> session_;
  RunRequest request_;
  PlainRun plain_;
};

// The table of composite operations says what LibTorch's own interpreter calls, given how often it came by each node.
TEST_P(Census, TableExplainsLibTorch) {
  Expected expected;
  for (const auto& node : plain_.nodes) {
    if (node.is_operator && node.executed > 0) expected.add(node.full_name(), node.is_dispatched, node.executed);
  }
  EXPECT_EQ(expected.differences(counts_of(plain_.calls)), "");
}

// Our records alone, put through the table, explain every top-level call that LibTorch made, and no call too many.
TEST_P(Census, RecordsExplainLibTorch) {
  Capture capture;
  record(false, capture);
  Expected expected;
  const auto records = recorded(capture);
  for (const auto& [row, count] : records.tensors) {
    expected.add(full_name(capture, row), (flags_of(capture, row) & kInstrDispatched) != 0, count);
  }
  for (const auto& [row, count] : records.flow) {
    if (records.tensors.contains(row)) continue;  // the same executions
    expected.add(full_name(capture, row), (flags_of(capture, row) & kInstrDispatched) != 0, count);
  }
  auto seen = counts_of(plain_.calls);
  for (const auto& call : plain_.calls) {  // assertions, empty lists: nothing comes out that a record could stand for
    if (call.yields_nothing()) --seen[call.full_name()];
  }
  std::erase_if(seen, [](const auto& entry) { return entry.second == 0; });
  EXPECT_EQ(expected.differences(seen), "");
}

// Every operator of the un-inlined graphs, the JIT's own included, was executed and recorded as often as LibTorch did.
TEST_P(Census, EveryOperatorIsRecorded) {
  Capture capture;
  record(false, capture);
  std::int64_t operators = 0;
  Counts tensors, hosts;
  for (const auto& node : plain_.nodes) {
    if (!node.is_operator) continue;
    operators += node.executed;
    const bool container = !node.is_dispatched && container_operations().contains(node.name) && node.host_outputs == 0;
    if (container || node.executed == 0) continue;
    if (node.tensor_outputs > 0)
      tensors[node.full_name()] += node.executed;
    else if (node.host_outputs > 0)
      hosts[node.full_name()] += node.executed * static_cast<std::int64_t>(node.host_outputs);
  }
  EXPECT_EQ(capture.run.health.operator_calls, operators);
  for (const auto& call : plain_.calls) {
    if (call.yields_nothing() && tensors.contains(call.full_name())) --tensors[call.full_name()];
  }
  Counts tensor_records, flow_records;
  const auto records = recorded(capture);
  for (const auto& [row, count] : records.tensors) tensor_records[full_name(capture, row)] += count;
  for (const auto& [row, count] : records.flow) flow_records[full_name(capture, row)] += count;
  std::string differences;
  for (const auto& [name, count] : tensors) {
    // Arithmetic on host values that yields 0-d tensors is flow.
    const auto found = tensor_records[name] + flow_records[name] - (hosts.contains(name) ? hosts[name] : 0);
    if (found != count)
      differences += "  " + name + ": executed " + std::to_string(count) + ", recorded " + std::to_string(found) + "\n";
  }
  for (const auto& [name, count] : hosts) {
    if (!tensors.contains(name) && flow_records[name] != count) {
      differences += "  " + name + ": " + std::to_string(count) + " host values, recorded " +
                     std::to_string(flow_records[name]) + "\n";
    }
  }
  EXPECT_EQ(differences, "");
}

// Every node that the method can reach is an instruction of the same name.
TEST_P(Census, EveryNodeIsAnInstruction) {
  Capture capture;
  record(false, capture);
  Counts instructions, nodes;
  for (std::size_t row = 0; row < capture.instructions.op_name.size(); ++row) {
    ++instructions[std::string(capture.strings[capture.instructions.op_name[row]])];
  }
  for (const auto& node : plain_.nodes) ++nodes[node.name];
  for (const auto& [name, count] : nodes) EXPECT_EQ(instructions[name], count) << name;
  for (const auto& [name, count] : instructions) EXPECT_EQ(nodes[name], count) << name;
}

// Our executor makes LibTorch's calls: the same ones in the same order, each once.
TEST_P(Census, SameCallsInTheSameOrder) {
  Capture capture;
  const auto ours = record(true, capture);
  EXPECT_TRUE(capture.run.health.witnessed);
  EXPECT_EQ(capture.run.health.unaccounted_calls, 0);
  EXPECT_EQ(capture.run.health.dispatcher_calls, static_cast<std::int64_t>(ours.size()));
  std::vector<std::string> left, right;
  for (const auto& call : ours) {
    if (!test::is_unobserved(call.full_name())) left.push_back(call.full_name());
  }
  for (const auto& call : plain_.calls) {
    if (!test::is_unobserved(call.full_name())) right.push_back(call.full_name());
  }
  const auto [a, b] = std::ranges::mismatch(left, right);
  EXPECT_TRUE(a == left.end() && b == right.end())
      << left.size() << " calls of ours, " << right.size() << " of LibTorch; first difference at " << (a - left.begin())
      << ": " << (a == left.end() ? "none" : *a) << " against " << (b == right.end() ? "none" : *b);
}

// With storages swapped under in-place operators, a call may be the out-of-place form of its operator: still one for
// one.
TEST_P(Census, SwappingMakesNoCallMore) {
  Capture capture;
  const auto ours = record(false, capture);
  std::vector<std::string> left, right;
  for (const auto& call : ours) {
    if (!test::is_unobserved(call.full_name())) left.push_back(call.name);
  }
  for (const auto& call : plain_.calls) {
    if (!test::is_unobserved(call.full_name())) right.push_back(call.name);
  }
  const auto [a, b] =
      std::ranges::mismatch(left, right, [](const auto& x, const auto& y) { return x == y || x + "_" == y; });
  EXPECT_TRUE(a == left.end() && b == right.end())
      << left.size() << " calls of ours, " << right.size() << " of LibTorch; first difference at " << (a - left.begin())
      << ": " << (a == left.end() ? "none" : *a) << " against " << (b == right.end() ? "none" : *b);
}

INSTANTIATE_TEST_SUITE_P(Zoo, Census, testing::ValuesIn(test::oracle_files()),
                         [](const auto& instance) { return test::case_name(instance.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Census);

}  // namespace
}  // namespace tl

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tensor/host_tensor.h"
#include "torch/call_table.h"
#include "torch/plain_calls.h"
#include "torch/small_files.h"
#include "trace/tables.h"

extern "C" tl::Engine* torchlens_engine_open();

namespace tl {
namespace {

using test::PlainCall;
using test::PlainRun;

constexpr std::int64_t kSeed = 1234;

Engine& engine() {
  static const std::unique_ptr<Engine> opened(torchlens_engine_open());
  return *opened;
}

// --- values
// ------------------------------------------------------------------------------------------------------------

std::string sizes_text(const HostTensor& tensor) {
  std::string text = "[";
  for (const auto size : tensor.sizes) text += std::to_string(size) + ",";
  return text + "]";
}

/// What differs between two tensors: parts, element types, sizes, bytes. Empty if nothing does.
std::string difference(const TensorRef& ours, const TensorRef& theirs) {
  if (ours.kind() != theirs.kind()) return "another kind of tensor";
  const auto left = ours.to_host();
  const auto right = theirs.to_host();
  if (left.size() != right.size()) return "another number of parts";
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i].suffix != right[i].suffix) return "another part " + left[i].suffix;
    const auto a = to_contiguous(left[i].tensor);
    const auto b = to_contiguous(right[i].tensor);
    if (a.dtype != b.dtype) return left[i].suffix + " another element type";
    if (a.sizes != b.sizes) return left[i].suffix + " sizes " + sizes_text(a) + " against " + sizes_text(b);
    const auto* first = a.storage.data() + static_cast<std::size_t>(a.offset) * item_bytes(a.dtype);
    const auto* second = b.storage.data() + static_cast<std::size_t>(b.offset) * item_bytes(b.dtype);
    for (std::size_t byte = 0; byte < a.nbytes(); ++byte) {
      if (first[byte] != second[byte]) {
        return left[i].suffix + " other bytes from element " + std::to_string(byte / item_bytes(a.dtype)) + " of " +
               std::to_string(a.numel());
      }
    }
  }
  return {};
}

// --- records
// -----------------------------------------------------------------------------------------------------------

/// One execution of an instruction that left records.
struct Execution {
  std::size_t instruction = 0;
  std::vector<std::size_t> events;  ///< by slot as recorded
  std::size_t flow_rows = 0;
};

std::string full_name(const Capture& capture, std::size_t row) {
  const std::string name(capture.strings[capture.instructions.op_name[row]]);
  const std::string overload(capture.strings[capture.instructions.overload[row]]);
  return overload.empty() ? name : name + "." + overload;
}

bool is_dispatched(const Capture& capture, std::size_t row) {
  return (capture.instructions.flags[row] & kInstrDispatched) != 0;
}

/// Executions in order. Several host values of one execution count as one where its operator yields several.
std::vector<Execution> executions_of(const Capture& capture) {
  std::vector<Execution> result;
  std::size_t flow = 0;
  const auto take_flow = [&](std::size_t before) {
    for (; flow < capture.flow.instruction.size() && static_cast<std::size_t>(capture.flow.before_op[flow]) <= before;
         ++flow) {
      result.push_back({static_cast<std::size_t>(capture.flow.instruction[flow]), {}, 1});
    }
  };
  int last_slot = -1;
  for (std::size_t i = 0; i < capture.events.size(); ++i) {
    take_flow(i);
    const auto& event = capture.events[i];
    if (event.kind != OpKind::kOperation) continue;
    const bool same = !result.empty() && result.back().instruction == event.instruction &&
                      !result.back().events.empty() && event.slot > last_slot;
    if (!same) result.push_back({event.instruction, {}, 0});
    result.back().events.push_back(i);
    last_slot = event.slot;
  }
  take_flow(capture.events.size());
  return result;
}

// --- alignment
// ---------------------------------------------------------------------------------------------------------

/// Where the calls of one execution begin and end in LibTorch's stream, after calls that leave no record.
struct Match {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Aligns executions with calls by name. The table leaves some calls open, so every possible position is carried along.
class Alignment {
 public:
  Alignment(const Capture& capture, const std::vector<Execution>& executions, const std::vector<PlainCall>& calls)
      : capture_(capture), executions_(executions), calls_(calls) {}

  /// The match of every execution; nullopt, and `failure`, if there is none.
  std::optional<std::vector<Match>> run() {
    std::vector<std::vector<State>> layers = {{{0, {}, 0}}};
    for (std::size_t i = 0; i < executions_.size(); ++i) {
      std::vector<State> next;
      for (std::size_t from = 0; from < layers[i].size(); ++from)
        step(executions_[i], layers[i][from].position, from, next);
      if (next.empty()) {
        fail(i, layers[i]);
        return std::nullopt;
      }
      layers.push_back(std::move(next));
    }
    const auto last =
        std::ranges::find_if(layers.back(), [&](const State& state) { return skip(state.position, calls_.size()); });
    if (last == layers.back().end()) {
      failure = "calls are left over from " + std::to_string(layers.back().front().position) + " of " +
                std::to_string(calls_.size()) + ": " + calls_[layers.back().front().position].full_name();
      return std::nullopt;
    }
    std::vector<Match> matches(executions_.size());
    auto at = static_cast<std::size_t>(last - layers.back().begin());
    for (auto i = executions_.size(); i > 0; --i) {
      matches[i - 1] = layers[i][at].match;
      at = layers[i][at].parent;
    }
    return matches;
  }

  std::string failure;

 private:
  struct State {
    std::size_t position;
    Match match;
    std::size_t parent;
  };

  /// True if all calls from `begin` to `end` leave no record by their nature or are not observed as records.
  bool skip(std::size_t begin, std::size_t end) const {
    for (; begin < end; ++begin) {
      if (!calls_[begin].yields_nothing() && !test::is_unobserved(calls_[begin].full_name())) return false;
    }
    return true;
  }

  void step(const Execution& execution, std::size_t position, std::size_t parent, std::vector<State>& next) const {
    const auto name = full_name(capture_, execution.instruction);
    const auto add = [&](Match match) {
      const bool known = std::ranges::any_of(next, [&](const State& state) { return state.position == match.end; });
      if (!known) next.push_back({match.end, match, parent});
    };
    if (is_dispatched(capture_, execution.instruction)) {
      if (test::is_unobserved(name)) return add({position, position});
      for (auto at = position; at < calls_.size(); ++at) {
        if (calls_[at].full_name() == name) add({at, at + 1});
        if (!skip(at, at + 1)) return;
      }
      return;
    }
    std::vector<std::size_t> ends = {position};
    for (const auto& call : test::table_calls(op_semantics(name).top_level_calls)) ends = after(ends, call);
    for (const auto end : ends) add({position, end});
  }

  /// Positions after `call`, from any of `begins`.
  std::vector<std::size_t> after(const std::vector<std::size_t>& begins, const test::TableCall& call) const {
    std::vector<std::size_t> ends;
    for (const auto begin : begins) {
      std::int64_t taken = 0;
      for (auto at = begin;; ++at, ++taken) {
        if (taken >= call.least && std::ranges::find(ends, at) == ends.end()) ends.push_back(at);
        if (taken >= call.most || at >= calls_.size() || calls_[at].name != call.name) break;
      }
    }
    return ends;
  }

  void fail(std::size_t index, const std::vector<State>& states) {
    failure = "execution " + std::to_string(index) + " of " + std::to_string(executions_.size()) + ", " +
              full_name(capture_, executions_[index].instruction) + ", finds no call at";
    for (const auto& state : states) {
      failure += " " + std::to_string(state.position) + ":" +
                 (state.position < calls_.size() ? calls_[state.position].full_name() : "end");
    }
  }

  const Capture& capture_;
  const std::vector<Execution>& executions_;
  const std::vector<PlainCall>& calls_;
};

// --- comparison
// --------------------------------------------------------------------------------------------------------

struct Tally {
  std::size_t compared = 0;
  std::size_t uninitialised = 0;
  std::size_t flow = 0;
  std::string findings;
  std::size_t num_findings = 0;
  void find(const std::string& text) {
    if (++num_findings <= 8) findings += "  " + text + "\n";
  }
};

void compare_call(const Capture& capture, const Execution& execution, const PlainCall& call, Tally& tally) {
  std::map<std::size_t, std::size_t> by_slot;
  for (const auto event : execution.events) by_slot[capture.events[event].slot] = event;
  std::size_t slot = 0;
  const auto label = call.full_name() + " (event " +
                     (execution.events.empty() ? std::string("none") : std::to_string(execution.events[0])) + ")";
  for (const auto& value : call.returns) {
    if (!value.is_tensor) continue;
    for (const auto& tensor : value.tensors) {
      const auto at = slot++;
      if (tensor == nullptr) continue;  // undefined
      const auto found = by_slot.find(at);
      if (found == by_slot.end()) {
        if (execution.flow_rows > 0)
          ++tally.flow;
        else
          tally.find(label + ": output " + std::to_string(at) + " has no record");
        continue;
      }
      const auto& event = capture.events[found->second];
      by_slot.erase(found);
      if ((event.flags & kOpUninitialised) != 0) {
        ++tally.uninitialised;
        if (event.payload != PayloadId::kNone) tally.find(label + ": uninitialised memory was kept");
        const bool known =
            call.name.find("empty") != std::string::npos || call.name.find("resize") != std::string::npos;
        if (!known) tally.find(label + ": is said to yield uninitialised memory");
        continue;
      }
      if (event.payload == PayloadId::kNone) {
        tally.find(label + ": output " + std::to_string(at) + " was not kept");
        continue;
      }
      const auto text = difference(*capture.payloads->tensor(PayloadId{event.payload}), *tensor);
      if (!text.empty()) tally.find(label + ": output " + std::to_string(at) + ":" + text);
      ++tally.compared;
    }
  }
  if (!by_slot.empty()) tally.find(label + ": " + std::to_string(by_slot.size()) + " records for no output");
}

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
    ModelRequest model;
    model.path = file.model.string();
    model.threads = 1;
    const auto session = engine().load(model);
    auto request = test::request_for(file, session->info().signature, kSeed);
    const auto plain = test::run_observed(file.model, request, {.keep_outputs = true, .count_nodes = false});
    ASSERT_EQ(plain.error, "");
    request.witness = witness;
    Capture capture;
    session->run(request, capture);
    ASSERT_TRUE(capture.run.outcome.complete()) << capture.run.outcome.reason;
    const auto executions = executions_of(capture);
    Alignment alignment(capture, executions, plain.calls);
    const auto matches = alignment.run();
    ASSERT_TRUE(matches) << alignment.failure;
    Tally tally;
    for (std::size_t i = 0; i < executions.size(); ++i) {
      const auto& match = (*matches)[i];
      const auto row = op_semantics(full_name(capture, executions[i].instruction)).top_level_calls;
      const bool one_call = row.find_first_of(",?*-") == std::string_view::npos && !executions[i].events.empty();
      if (match.end == match.begin + 1 && (is_dispatched(capture, executions[i].instruction) || one_call)) {
        compare_call(capture, executions[i], plain.calls[match.begin], tally);
      }
    }
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

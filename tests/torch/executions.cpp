#include "torch/executions.h"

#include <algorithm>
#include <map>

#include "tensor/host_tensor.h"
#include "torch/call_table.h"
#include "trace/tables.h"

namespace tl::test {
namespace {

std::string sizes_text(const HostTensor& tensor) {
  std::string text = "[";
  for (const auto size : tensor.sizes) text += std::to_string(size) + ",";
  return text + "]";
}

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
      if (!calls_[begin].yields_nothing() && !is_unobserved(calls_[begin].full_name())) return false;
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
      if (is_unobserved(name)) return add({position, position});
      for (auto at = position; at < calls_.size(); ++at) {
        if (calls_[at].full_name() == name) add({at, at + 1});
        if (!skip(at, at + 1)) return;
      }
      return;
    }
    std::vector<std::size_t> ends = {position};
    for (const auto& call : table_calls(op_semantics(name).top_level_calls)) ends = after(ends, call);
    for (const auto end : ends) add({position, end});
  }

  /// Positions after `call`, from any of `begins`.
  std::vector<std::size_t> after(const std::vector<std::size_t>& begins, const TableCall& call) const {
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

}  // namespace

std::string difference(const HostTensor& ours, const HostTensor& theirs) {
  const auto a = to_contiguous(ours);
  const auto b = to_contiguous(theirs);
  if (a.dtype != b.dtype) return " another element type";
  if (a.sizes != b.sizes) return " sizes " + sizes_text(a) + " against " + sizes_text(b);
  const auto* first = a.storage.data() + static_cast<std::size_t>(a.offset) * item_bytes(a.dtype);
  const auto* second = b.storage.data() + static_cast<std::size_t>(b.offset) * item_bytes(b.dtype);
  for (std::size_t byte = 0; byte < a.nbytes(); ++byte) {
    if (first[byte] != second[byte]) {
      return " other bytes from element " + std::to_string(byte / item_bytes(a.dtype)) + " of " +
             std::to_string(a.numel());
    }
  }
  return {};
}

std::string difference(const TensorRef& ours, const TensorRef& theirs) {
  if (ours.kind() != theirs.kind()) return "another kind of tensor";
  const auto left = ours.to_host();
  const auto right = theirs.to_host();
  if (left.size() != right.size()) return "another number of parts";
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i].suffix != right[i].suffix) return "another part " + left[i].suffix;
    const auto text = difference(left[i].tensor, right[i].tensor);
    if (!text.empty()) return left[i].suffix + text;
  }
  return {};
}

std::string full_name(const Capture& capture, std::size_t row) {
  const std::string name(capture.strings[capture.instructions.op_name[row]]);
  const std::string overload(capture.strings[capture.instructions.overload[row]]);
  return overload.empty() ? name : name + "." + overload;
}

bool is_dispatched(const Capture& capture, std::size_t row) {
  return (capture.instructions.flags[row] & kInstrDispatched) != 0;
}

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

void compare_call(const Capture& capture, const Execution& execution, const PlainCall& call, Tally& tally) {
  std::map<std::size_t, std::size_t> by_slot;
  for (const auto event : execution.events) by_slot[capture.events[event].slot] = event;
  std::size_t slot = 0;
  const auto label = call.full_name() + " (event " +
                     (execution.events.empty() ? std::string("none") : std::to_string(execution.events[0])) + ")";
  for (const auto& value : call.returns) {
    if (!value.is_tensor) continue;
    for (const auto& tensor : value.tensors) {
      if (tensor == nullptr) continue;  // undefined: no Op, no slot
      const auto at = slot++;
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

std::optional<std::vector<Match>> align(const Capture& capture, const std::vector<Execution>& executions,
                                        const std::vector<PlainCall>& calls, std::string& failure) {
  Alignment alignment(capture, executions, calls);
  auto matches = alignment.run();
  failure = alignment.failure;
  return matches;
}

void compare_calls(const Capture& capture, const std::vector<PlainCall>& calls, Tally& tally) {
  const auto executions = executions_of(capture);
  std::string failure;
  const auto matches = align(capture, executions, calls, failure);
  if (!matches) return tally.find(failure);
  for (std::size_t i = 0; i < executions.size(); ++i) {
    const auto& match = (*matches)[i];
    const auto row = op_semantics(full_name(capture, executions[i].instruction)).top_level_calls;
    const bool one_call = row.find_first_of(",?*-") == std::string_view::npos && !executions[i].events.empty();
    if (match.end == match.begin + 1 && (is_dispatched(capture, executions[i].instruction) || one_call)) {
      compare_call(capture, executions[i], calls[match.begin], tally);
    }
  }
}

}  // namespace tl::test

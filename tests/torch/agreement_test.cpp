#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "tensor/element.h"
#include "tensor/host_tensor.h"
#include "torch/agreement_rules.h"
#include "torch/recording.h"
#include "torch/zoo_files.h"
#include "trace/trace.h"

// The same model saved in several formats, recorded on the same inputs: Ops between script, trace and the TRAINING
// dialect, outputs of module calls between all.
namespace tl {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSeed = 1234;

/// What of a model's files a suffix says, in the order of the table.
struct Format {
  const char* name;
  std::vector<std::string> suffixes;
};
const std::vector<Format>& formats() {
  static const std::vector<Format> list = {{"script", {".ts.pt", ".script.pt"}},
                                           {"trace", {".trace.pt"}},
                                           {"training", {".pt2", ".export.pt2"}},
                                           {"aten", {".core.pt2"}}};
  return list;
}

/// One Op for comparing: what ran and the bytes that came out.
struct Operation {
  std::string name;  ///< without the underscore of the in-place form
  std::uint64_t bits = 0;
  OpId op;
  bool has_state = false;  ///< hangs on a buffer that the run writes
};

std::uint64_t bits_of(const HostTensor& tensor) {
  const auto packed = to_contiguous(tensor);
  const auto* data = packed.storage.data() + static_cast<std::size_t>(packed.offset) * item_bytes(packed.dtype);
  std::uint64_t hash = 1469598103934665603u ^ static_cast<std::uint64_t>(packed.dtype);
  const auto mix = [&](std::uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  for (const auto size : packed.sizes) mix(static_cast<std::uint64_t>(size));
  for (std::size_t i = 0; i < packed.nbytes(); ++i) mix(static_cast<std::uint64_t>(data[i]));
  return hash;
}

HostTensor value_of(const Trace& trace, OpId op) {
  const auto payload = trace.ops.payload[op.index()];
  if (payload < 0) return {};
  const auto tensor = trace.payload_source->tensor(PayloadId{static_cast<std::uint32_t>(payload)});
  return tensor == nullptr ? HostTensor{} : tensor->to_host().at(0).tensor;
}

/// Facts about the Ops of a recording that decide what of them can be compared.
class Comparable {
 public:
  explicit Comparable(const Trace& trace) : trace_(trace), state_(trace.num_ops(), false) {
    std::set<std::int32_t> written;
    for (std::size_t i = 0; i < trace.num_ops(); ++i) {
      if ((trace.ops.flags[i] & kOpBufferWrite) != 0) written.insert(trace.ops.address[i]);
    }
    for (std::size_t i = 0; i < trace.num_ops(); ++i) {
      const OpId op{static_cast<std::uint32_t>(i)};
      const bool buffer = static_cast<OpKind>(trace.ops.kind[i]) == OpKind::kBuffer;
      state_[i] = buffer && written.contains(trace.ops.address[i]);
      for (const auto parent : parents(trace, op)) state_[i] = state_[i] || state_[parent.index()];
    }
  }

  /// True if the Op hangs on a buffer that the run writes. Tracing runs the model, so a traced file holds such a buffer
  /// as that run left it.
  bool hangs_on_written_state(OpId op) const { return state_[op.index()]; }

  /// True if a later Op writes through the Op's tensor or a view of it: the payload, kept when the Op ran, is not what
  /// its readers get.
  bool is_written_later(OpId op) const {
    std::set<std::uint32_t> seen = {static_cast<std::uint32_t>(op.index())};
    for (auto i = op.index() + 1; i < trace_.num_ops(); ++i) {
      const auto sources = parents(trace_, OpId{static_cast<std::uint32_t>(i)});
      if (sources.empty() || !seen.contains(static_cast<std::uint32_t>(sources[0].index()))) continue;
      if ((trace_.ops.flags[i] & kOpInPlace) != 0) return true;
      if ((trace_.ops.flags[i] & kOpView) != 0) seen.insert(static_cast<std::uint32_t>(i));
    }
    return false;
  }

 private:
  const Trace& trace_;
  std::vector<bool> state_;
};

std::vector<Operation> operations_of(const Trace& trace) {
  const Comparable comparable(trace);
  std::vector<Operation> result;
  for (std::size_t i = 0; i < trace.num_ops(); ++i) {
    if (static_cast<OpKind>(trace.ops.kind[i]) != OpKind::kOperation) continue;
    const OpId op{static_cast<std::uint32_t>(i)};
    const auto row = static_cast<std::size_t>(trace.ops.instruction[i]);
    std::string name(trace.strings[trace.instructions.op_name[row]]);
    if (name.ends_with('_') && !name.ends_with("__")) name.pop_back();
    const auto value = value_of(trace, op);
    result.push_back({test::same_kernel_as(name), value.dtype == DType::kNone ? 0 : bits_of(value), op,
                      comparable.hangs_on_written_state(op)});
  }
  return result;
}

struct OpAgreement {
  std::size_t left = 0, right = 0;  ///< Ops of each
  std::size_t same = 0;             ///< the same operator with the same bytes
  std::size_t state = 0;            ///< the same operator, with other bytes since it hangs on a buffer that is written
  std::map<std::string, std::size_t> only_left, only_right, other_bits;
};

/// Pairs the Ops of two recordings in order: as many of one name as possible, and of those as many equal ones.
/// `traced`: one of the files was made by torch.jit.trace.
OpAgreement agreement(const std::vector<Operation>& left, const std::vector<Operation>& right, bool traced) {
  const auto width = right.size() + 1;
  std::vector<std::uint32_t> best((left.size() + 1) * width, 0);
  const auto worth = [&](std::size_t i, std::size_t j) -> std::uint32_t {
    if (left[i].name != right[j].name) return 0;
    return left[i].bits == right[j].bits ? 1001 : 1000;
  };
  for (auto i = left.size(); i-- > 0;) {
    for (auto j = right.size(); j-- > 0;) {
      const auto value = worth(i, j);
      best[i * width + j] = std::max(
          {best[(i + 1) * width + j], best[i * width + j + 1], value > 0 ? value + best[(i + 1) * width + j + 1] : 0});
    }
  }
  OpAgreement result{left.size(), right.size(), 0, 0, {}, {}, {}};
  std::size_t i = 0, j = 0;
  while (i < left.size() || j < right.size()) {
    const bool both = i < left.size() && j < right.size();
    const auto value = both ? worth(i, j) : 0;
    if (value > 0 && best[i * width + j] == value + best[(i + 1) * width + j + 1]) {
      if (value == 1001)
        ++result.same;
      else if (traced && left[i].has_state && right[j].has_state)
        ++result.state;
      else
        ++result.other_bits[left[i].name];
      ++i;
      ++j;
    } else if (i < left.size() && (!both || best[i * width + j] == best[(i + 1) * width + j])) {
      ++result.only_left[left[i++].name];
    } else {
      ++result.only_right[right[j++].name];
    }
  }
  return result;
}

struct ModuleAgreement {
  std::size_t compared = 0, near = 0;
  std::size_t state = 0;                        ///< hang on a buffer that is written, and one file is a trace
  std::size_t written_later = 0;                ///< the returned tensor was changed in place after its Op
  std::vector<std::string> differing;           ///< the rest
  std::set<std::string> only_left, only_right;  ///< calls
};

/// The module calls of a recording that returned a recorded tensor, by label, and the Op that made it.
std::map<std::string, OpId> module_outputs(const Trace& trace) {
  std::map<std::string, OpId> outputs;
  for (std::size_t call = 0; call < trace.module_calls.module.size(); ++call) {
    const auto op = trace.module_calls.output_op[call];
    if (op < 0 || trace.ops.payload[static_cast<std::size_t>(op)] < 0) continue;
    outputs.emplace(module_call_label(trace, ModuleCallId{static_cast<std::uint32_t>(call)}),
                    OpId{static_cast<std::uint32_t>(op)});
  }
  return outputs;
}

bool near(const HostTensor& a, const HostTensor& b) {
  if (a.sizes != b.sizes || a.dtype != b.dtype) return false;
  const double slack = item_bytes(a.dtype) >= 4 ? 1e-5 : 1.0 / 64;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const auto x = element_as_double(a, i);
    const auto y = element_as_double(b, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!(std::fabs(x - y) <= slack * std::max(1.0, std::fabs(x)))) return false;
  }
  return true;
}

ModuleAgreement module_agreement(const Trace& left, const Trace& right, bool traced) {
  const auto ours = module_outputs(left);
  const auto theirs = module_outputs(right);
  const Comparable of_left(left);
  const Comparable of_right(right);
  ModuleAgreement result;
  for (const auto& [label, op] : ours) {
    const auto found = theirs.find(label);
    if (found == theirs.end()) {
      result.only_left.insert(label);
      continue;
    }
    ++result.compared;
    if (near(value_of(left, op), value_of(right, found->second)))
      ++result.near;
    else if (traced && of_left.hangs_on_written_state(op) && of_right.hangs_on_written_state(found->second))
      ++result.state;
    else if (of_left.is_written_later(op) || of_right.is_written_later(found->second))
      ++result.written_later;
    else
      result.differing.push_back(label);
  }
  for (const auto& [label, op] : theirs) {
    if (!ours.contains(label)) result.only_right.insert(label);
  }
  return result;
}

/// The files of one model, by format.
using Model = std::map<std::string, test::ZooFile>;

std::map<std::string, Model> models() {
  std::map<std::string, Model> result;
  for (const auto& file : test::all_runnable_files()) {
    const auto folder = file.model.parent_path().filename().string();
    if (folder == "exported") continue;
    const auto name = file.name();
    const auto dot = name.find('.');
    for (const auto& format : formats()) {
      if (std::ranges::find(format.suffixes, name.substr(dot)) == format.suffixes.end()) continue;
      result[(folder == "artifacts" ? "reference/" : "") + name.substr(0, dot)][format.name] = file;
    }
  }
  std::erase_if(result, [](const auto& entry) { return entry.second.size() < 2; });
  return result;
}

std::string counted(const std::map<std::string, std::size_t>& names) {
  std::string text;
  for (const auto& [name, count] : names) text += " " + name + (count > 1 ? "*" + std::to_string(count) : "");
  return text;
}

/// Compares all pairs of formats of all models, a line each.
class Table {
 public:
  void add(const std::string& name, const Model& model) {
    std::map<std::string, Trace> traces;
    for (const auto& [format, file] : model) {
      try {
        auto trace = test::record_file(file, kSeed);
        EXPECT_TRUE(trace.run.outcome.complete()) << file.name() << ": " << trace.run.outcome.reason;
        traces.emplace(format, std::move(trace));
      } catch (const Error& error) {
        ADD_FAILURE() << file.name() << ": " << error.message;
      }
    }
    for (std::size_t i = 0; i < formats().size(); ++i) {
      for (auto j = i + 1; j < formats().size(); ++j) {
        const auto left = traces.find(formats()[i].name);
        const auto right = traces.find(formats()[j].name);
        if (left != traces.end() && right != traces.end()) pair(name, *left, *right);
      }
    }
  }

  std::string text() const {
    std::ostringstream out;
    for (const auto& line : lines_) out << line << "\n";
    return out.str();
  }
  const std::vector<std::string>& unexplained() const { return unexplained_; }
  std::size_t compared() const { return compared_; }
  std::size_t near() const { return near_; }

 private:
  using Side = std::pair<const std::string, Trace>;

  void pair(const std::string& name, const Side& left, const Side& right) {
    const auto between = left.first + " and " + right.first;
    const bool traced = left.first == "trace" || right.first == "trace";
    std::ostringstream line;
    line << name << ": " << between << ":";
    if (right.first != "aten") line << ops_of(name, left, right, traced);  // decomposed: other operators by design
    const auto modules = module_agreement(left.second, right.second, traced);
    compared_ += modules.compared;
    near_ += modules.near;
    line << " module calls " << modules.near << " alike of " << modules.compared;
    if (modules.state > 0) line << ", " << modules.state << " of written state";
    if (modules.written_later > 0) line << ", " << modules.written_later << " written later";
    for (const auto& label : modules.differing) {
      line << " " << label;
      unexplained_.push_back(name + ": " + between + ": module call " + label);
    }
    if (!modules.only_left.empty()) line << ", " << modules.only_left.size() << " only " << left.first;
    if (!modules.only_right.empty()) line << ", " << modules.only_right.size() << " only " << right.first;
    lines_.push_back(line.str());
  }

  /// The part of a line about Ops; what no rule explains is kept.
  std::string ops_of(const std::string& name, const Side& left, const Side& right, bool traced) {
    const auto first = operations_of(left.second);
    const auto second = operations_of(right.second);
    const auto is_fused = [](const Operation& operation) { return test::is_fused_path(operation.name); };
    const bool fused = std::ranges::any_of(first, is_fused) != std::ranges::any_of(second, is_fused);
    const auto ops = agreement(first, second, traced);
    std::ostringstream line;
    line << " ops " << ops.same << " the same of " << ops.left << " and " << ops.right;
    if (ops.state > 0) line << ", " << ops.state << " of written state";
    if (fused) return line.str() + ", a fused path in one;";
    if (!ops.other_bits.empty()) line << ", other bits:" << counted(ops.other_bits);
    if (!ops.only_left.empty()) line << ", only " << left.first << ":" << counted(ops.only_left);
    if (!ops.only_right.empty()) line << ", only " << right.first << ":" << counted(ops.only_right);
    for (const auto* names : {&ops.other_bits, &ops.only_left, &ops.only_right}) {
      for (const auto& [op, count] : *names) {
        if (test::explains(left.first, right.first, op)) continue;
        unexplained_.push_back(name + ": " + left.first + " and " + right.first + ": " + op);
      }
    }
    return line.str() + ";";
  }

  std::vector<std::string> lines_;
  std::vector<std::string> unexplained_;
  std::size_t compared_ = 0;
  std::size_t near_ = 0;
};

std::string read_if_there(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every disagreement is one that agreement_rules.cpp declares for the operator, and the table is the one that was read
// and kept. TL_UPDATE_GOLDEN=1 writes it anew.
TEST(Agreement, BetweenFormatsIsAsKept) {
  const auto all = models();
  if (all.empty()) GTEST_SKIP() << "the reference files beside the project (" << TL_SHARED_DIR << ") are absent";
  Table table;
  for (const auto& [name, model] : all) table.add(name, model);
  std::cout << table.text();
  std::cout << "module calls alike: " << table.near() << " of " << table.compared() << "\n";
  std::string unexplained;
  for (const auto& text : table.unexplained()) unexplained += "  " + text + "\n";
  EXPECT_EQ(unexplained, "");
  EXPECT_GE(static_cast<double>(table.near()), 0.95 * static_cast<double>(table.compared()));
  const auto golden = fs::path(TL_SOURCE_DIR) / "tests/torch/data/agreement.txt";
  if (std::getenv("TL_UPDATE_GOLDEN") != nullptr) std::ofstream(golden, std::ios::binary) << table.text();
  EXPECT_TRUE(read_if_there(golden) == table.text()) << golden << " differs from what is printed above";
}

// A rule that nothing needs would only hide faults.
TEST(Agreement, EveryRuleIsNeeded) {
  const auto kept = read_if_there(fs::path(TL_SOURCE_DIR) / "tests/torch/data/agreement.txt");
  for (const auto& rule : test::agreement_rules()) {
    EXPECT_NE(kept.find(std::string(rule.operation)), std::string::npos) << rule.operation;
  }
}

}  // namespace
}  // namespace tl

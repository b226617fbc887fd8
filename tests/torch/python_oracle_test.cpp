#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "archive/exported_program_reader.h"
#include "archive/zip_directory.h"
#include "core/mapped_file.h"
#include "support/temp_directory.h"
#include "tensor/safetensors.h"
#include "torch/executions.h"
#include "torch/recording.h"
#include "torch/small_files.h"
#include "trace/tables.h"

// Exported programs against Python's own run of the same graph, node by node: tests/models/exported/record_oracle.py.
namespace tl {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSeed = 1234;  // that of record_oracle.py

/// What Python recorded of one file; null, and why, where it could not.
struct Oracle {
  std::shared_ptr<const SafetensorsFile> values;
  std::string missing;
};

/// Python's records of all files, made once a process.
class PythonRun {
 public:
  static PythonRun& instance() {
    static PythonRun run;
    return run;
  }

  /// Empty where Python ran.
  const std::string& unavailable() const { return unavailable_; }

  Oracle of(const test::ZooFile& file) const {
    const auto path = output_of(file);
    if (!fs::exists(path)) return {nullptr, "Python cannot run the file"};
    return {std::make_shared<const SafetensorsFile>(SafetensorsFile::open(path)), {}};
  }

 private:
  PythonRun() {
    const std::string python = TL_TORCH_PYTHON;
    if (python.empty()) {
      unavailable_ = "the LibTorch of this build is no Python package";
      return;
    }
    const auto probe = "'" + python + "' -c 'import torch, safetensors' > /dev/null 2>&1";
    if (std::system(probe.c_str()) != 0) {
      unavailable_ = python + " cannot import torch and safetensors";
      return;
    }
    std::map<fs::path, std::string> files;  // by folder of the outputs
    for (const auto& file : test::runnable_exported_files()) {
      const auto output = output_of(file);
      fs::create_directories(output.parent_path());
      if (file.program.empty()) {
        files[output.parent_path()] += " '" + file.model.string() + "'";
      } else {
        run("'" + file.model.string() + "' '" + file.inputs.string() + "' '" + output.string() + "' --program '" +
            file.program + "'");
      }
    }
    for (const auto& [folder, models] : files) run("--all '" + folder.string() + "'" + models);
  }

  void run(const std::string& arguments) const {
    const auto script = fs::path(TL_SOURCE_DIR) / "tests/models/exported/record_oracle.py";
    const auto command = "PYTHONDONTWRITEBYTECODE=1 '" + std::string(TL_TORCH_PYTHON) + "' '" + script.string() + "' " +
                         arguments + " 2>&1 | grep -v WARNING";
    if (std::system(command.c_str()) < 0) ADD_FAILURE() << "cannot run " << command;
  }

  fs::path output_of(const test::ZooFile& file) const {
    const auto name = file.name().substr(0, file.name().size() - std::string(".pt2").size());
    return directory_.path() / file.model.parent_path().filename() /
           (name + (file.program.empty() ? "" : "." + file.program) + ".safetensors");
  }

  TempDirectory directory_;
  std::string unavailable_;
};

std::string last_part(const std::string& key) { return key.substr(key.rfind('/') + 1); }

std::vector<std::string> split(std::string_view names) {
  std::vector<std::string> parts;
  while (!names.empty()) {
    const auto comma = names.find(',');
    parts.emplace_back(names.substr(0, comma));
    names = comma == std::string_view::npos ? std::string_view{} : names.substr(comma + 1);
  }
  return parts;
}

/// Names of the tensors that came out, by slot: outputs that an operator leaves out take no slot.
std::vector<std::string> names_of(const Capture& capture, const CaptureEvent& event) {
  auto names = split(capture.strings[capture.instructions.value_names[event.instruction]]);
  if (names.size() > event.num_slots) std::erase(names, "");
  return names;
}

/// Names of the values that the lowering makes no Op for: those of higher-order operators are those of their graphs.
void collect_unrecorded(const ExportedGraph& graph, std::set<std::string>& names) {
  const auto add = [&](const auto& self, const ExportedArgument& argument, const ExportedNode& node) -> void {
    if (const auto* ref = argument.ref()) names.insert(graph.values[ref->value].name);
    if (const auto* list = argument.list()) {
      names.insert(node.name);
      for (std::size_t i = 0; i < list->items.size(); ++i) {
        names.insert(node.name + "." + std::to_string(i));
        self(self, list->items[i], node);
      }
    }
  };
  for (const auto& node : graph.nodes) {
    if (node.target.starts_with("torch.ops.higher_order.")) {
      names.insert(node.name);
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        names.insert(node.name + "." + std::to_string(i));
        add(add, node.outputs[i], node);
      }
    }
    for (const auto& input : node.inputs) {
      if (input.argument.graph() != nullptr) collect_unrecorded(*input.argument.graph(), names);
    }
  }
}

class PythonOracle : public testing::TestWithParam<test::ZooFile> {
 protected:
  void SetUp() override {
    const auto& run = PythonRun::instance();
    if (!run.unavailable().empty()) GTEST_SKIP() << run.unavailable();
    auto oracle = run.of(GetParam());
    if (!oracle.values) GTEST_SKIP() << oracle.missing;
    oracle_ = oracle.values;
    const auto order = metadata("order");
    for (const auto& key : order) keys_[last_part(key)].push_back(key);
    const auto skipped = metadata("skipped");
    for (auto row = skipped.begin(); row != skipped.end(); ++row) skipped_.insert(last_part(row.key()));
    const auto session = test::engine().load(test::model_request(GetParam()));
    session->run(test::request_for(GetParam(), session->info(), kSeed), capture_);
    ASSERT_TRUE(capture_.run.outcome.complete()) << capture_.run.outcome.reason;
  }

  nlohmann::json metadata(const std::string& name) const {
    const auto found = oracle_->metadata().find(name);
    return nlohmann::json::parse(found == oracle_->metadata().end() ? "[]" : found->second);
  }

  HostTensor payload(std::size_t event) const {
    return capture_.payloads->tensor(PayloadId{capture_.events[event].payload})->to_host().at(0).tensor;
  }

  std::shared_ptr<const SafetensorsFile> oracle_;
  std::map<std::string, std::vector<std::string>> keys_;  ///< by name of the value: the keys of its runs, in order
  std::set<std::string> skipped_;
  Capture capture_;
};

/// Complex128 is stored as pairs of real numbers.
HostTensor as_stored(HostTensor tensor) {
  if (tensor.dtype != DType::kC128) return tensor;
  auto pairs = to_contiguous(tensor);
  pairs.dtype = DType::kF64;
  pairs.sizes.push_back(2);
  for (auto& stride : pairs.strides) stride *= 2;
  pairs.strides.push_back(1);
  pairs.offset *= 2;
  return pairs;
}

// Every recorded Op that stands for a node has the node's value, bit for bit, run by run; and no node is left over.
TEST_P(PythonOracle, ValuesAreThoseOfTheOps) {
  test::Tally tally;
  std::map<std::string, std::size_t> taken;
  for (std::size_t i = 0; i < capture_.events.size(); ++i) {
    const auto& event = capture_.events[i];
    if (event.kind != OpKind::kOperation) continue;
    const auto names = names_of(capture_, event);
    if (event.slot >= names.size() || names[event.slot].empty()) continue;
    const auto& name = names[event.slot];
    if (skipped_.contains(name)) continue;
    const auto keys = keys_.find(name);
    const auto number = taken[name]++;
    if (keys == keys_.end() || number >= keys->second.size()) {
      tally.find(name + ", run " + std::to_string(number + 1) + ": Python has no such value");
      continue;
    }
    if ((event.flags & kOpUninitialised) != 0) continue;
    if (event.payload == PayloadId::kNone) {
      tally.find(name + ": was not kept");
      continue;
    }
    const auto text = test::difference(as_stored(payload(i)), oracle_->tensor(keys->second[number]).value());
    if (!text.empty()) tally.find(keys->second[number] + ":" + text);
    ++tally.compared;
  }
  // Numbers in tensors that no input reaches are host values of the program: rows of flow, not Ops.
  for (const auto row : capture_.flow.instruction) {
    const auto names = split(capture_.strings[capture_.instructions.value_names[static_cast<std::size_t>(row)]]);
    for (const auto& name : names) ++taken[name];
  }
  std::set<std::string> unrecorded;
  const auto mapped = MappedFile::open(GetParam().model);
  const ZipDirectory zip(mapped->bytes(), GetParam().name(), mapped);
  const auto program = read_exported_program(zip, {.model = GetParam().program, .payloads = false});
  collect_unrecorded(program.graph, unrecorded);
  for (const auto& [name, keys] : keys_) {
    if (taken[name] < keys.size() && !unrecorded.contains(name)) {
      tally.find(name + ": Python has it " + std::to_string(keys.size()) + " times, " + std::to_string(taken[name]) +
                 " recorded");
    }
  }
  EXPECT_EQ(tally.num_findings, 0u) << tally.findings;
  // No Op stands for a node of a program of higher-order operators alone; its outputs are compared elsewhere.
  const bool only_higher_order =
      std::ranges::all_of(keys_, [&](const auto& named) { return unrecorded.contains(named.first); });
  EXPECT_TRUE(tally.compared > 0 || only_higher_order);
}

// What the run left in the buffers is what it left there in Python.
TEST_P(PythonOracle, BuffersEndAsInPython) {
  std::map<std::string, std::size_t> last;
  for (std::size_t i = 0; i < capture_.events.size(); ++i) {
    const auto& event = capture_.events[i];
    if (event.kind == OpKind::kBuffer && event.payload != PayloadId::kNone) {
      last[std::string(capture_.strings[event.address])] = i;
    }
  }
  std::set<std::string> buffers;
  for (const auto address : capture_.buffers.address) buffers.insert(std::string(capture_.strings[address]));
  for (const auto& entry : oracle_->entries()) {
    if (!entry.name.starts_with("after.")) continue;
    const auto address = entry.name.substr(6);
    if (!buffers.contains(address)) continue;
    if (!last.contains(address)) {
      ADD_FAILURE() << address << " changed, and no version of it is recorded";
      continue;
    }
    EXPECT_EQ(test::difference(as_stored(payload(last.at(address))), oracle_->tensor(entry)), "") << address;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, PythonOracle, testing::ValuesIn(test::runnable_exported_files()),
                         [](const auto& instance) { return test::case_name(instance.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PythonOracle);

}  // namespace
}  // namespace tl

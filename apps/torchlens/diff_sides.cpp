#include "diff_sides.h"

#include <glob.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <set>
#include <thread>
#include <unordered_set>

#include "archive/model_kind.h"
#include "cli.h"
#include "core/error.h"
#include "core/output_file.h"
#include "diff/contents.h"
#include "diff/weight_pairs.h"
#include "engine/registry.h"
#include "engine/supervisor.h"
#include "run_trace.h"
#include "tensor/safetensors_writer.h"
#include "tlspec/foreign.h"
#include "tlspec/reader.h"
#include "tlspec/tensors_check.h"
#include "trace_plan.h"

namespace tl::cli {
namespace {

namespace fs = std::filesystem;

/// A name with wildcards that stands for files; NAME=[1,2] does not.
bool is_pattern(const std::string& input) {
  return input.find('=') == std::string::npos && input.find_first_of("*?") != std::string::npos;
}

std::vector<std::string> matching_files(const std::string& pattern) {
  glob_t found = {};
  std::vector<std::string> files;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) files.emplace_back(found.gl_pathv[i]);
  }
  ::globfree(&found);
  if (files.empty()) throw Error(ErrorCode::kFileMissing, "--input " + pattern + ": no file matches the pattern");
  return files;
}

/// True if a file of tensors names parameters or buffers of the model that was recorded: a checkpoint, no activations.
bool holds_weights_of(const std::string& file, const std::string& recording) {
  const auto loaded = load_side(recording, false);
  const auto tensors = tensors_of(loaded.trace ? make_side(*loaded.trace) : make_side(*loaded.dump));
  std::unordered_set<std::string_view> names;
  for (const auto& tensor : tensors) {
    names.insert(tensor.name);
    names.insert(tensor.other_names.begin(), tensor.other_names.end());
  }
  return std::ranges::any_of(tensor_file_names(file), [&](const std::string& name) { return names.contains(name); });
}

/// A stream whose text is not wanted: the screen of a run that only serves a comparison.
class DiscardedStream {
 public:
  DiscardedStream() : file_(std::fopen("/dev/null", "w")) {
    if (!file_) throw_output_failed("/dev/null", errno);
  }
  ~DiscardedStream() { std::fclose(file_); }
  DiscardedStream(const DiscardedStream&) = delete;
  DiscardedStream& operator=(const DiscardedStream&) = delete;
  std::FILE* file() const { return file_; }

 private:
  std::FILE* file_;
};

TraceOptions trace_options(const DiffCommandOptions& options, const std::string& model,
                           const std::vector<std::string>& inputs, const fs::path& target) {
  TraceOptions trace;
  trace.model = model;
  trace.inputs = inputs;
  trace.randoms = options.randoms;
  trace.output = target.string();
  trace.save = "all";
  trace.threads = options.threads;
  trace.seed = options.seed;
  trace.libraries = options.libraries;
  trace.allowed_ops = options.allowed_ops;
  trace.timeout = options.timeout;
  return trace;
}

}  // namespace

ScratchDirectory::ScratchDirectory() {
  auto name = (fs::temp_directory_path() / "torchlens-diff-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw_output_failed(name, errno);
  path_ = name;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

bool is_model_file(const std::string& path) {
  const auto kind = inspect_model_file(path).kind;
  return kind == ModelKind::kTorchScript || kind == ModelKind::kExportedProgram;
}

LoadedSide load_side(const std::string& path, bool payloads) {
  LoadedSide side;
  if (reference_format(path) == ReferenceFormat::kTrace) {
    side.trace = std::make_unique<Trace>(read_tlspec(path, {.payloads = payloads}));
  } else {
    side.dump = std::make_unique<Dump>(read_reference(path));
  }
  return side;
}

void check_blamed_files(const DiffReport& report, const std::string& path, const LoadedSide& side, bool is_reference) {
  std::set<std::int64_t> shards;
  bool blamed = false;
  for (std::size_t row = 0; row < report.sites.size(); ++row) {
    const auto& site = report.sites[row];
    const bool leads = site.site_class == SiteClass::kSource || std::isinf(site.error) ||
                       static_cast<std::int64_t>(row) == report.first_out_of_tolerance;
    if (site.within || !leads) continue;
    blamed = true;
    if (!side.trace) break;
    const auto& ops = side.trace->ops;
    const auto op = static_cast<std::size_t>(is_reference ? site.reference.row : site.subject.row);
    const auto payload = ops.payload[op] >= 0 ? ops.payload[op] : ops.sample[op];
    if (payload >= 0) shards.insert(side.trace->payloads.shard[static_cast<std::size_t>(payload)]);
  }
  if (blamed) check_tensors_files(path, shards);
}

bool compares_contents(const std::string& reference, const std::string& subject) {
  if (is_model_file(reference) || is_model_file(subject)) return true;
  const bool ours = has_model_contents(reference);
  const bool theirs = has_model_contents(subject);
  if (ours == theirs) return ours;
  return holds_weights_of(ours ? reference : subject, ours ? subject : reference);
}

ModelContents load_contents(const std::string& path, int threads) {
  constexpr unsigned kMostThreads = 4;  // memory gives no more to more
  const auto there = std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads);
  if (has_model_contents(path)) return read_model_contents(path, threads > 0 ? static_cast<unsigned>(threads) : there);
  if (!fs::is_directory(path) && reference_format(path) == ReferenceFormat::kNone) {
    if (auto refusal = refusal_for(inspect_model_file(path))) throw std::move(*refusal);
  }
  const auto side = load_side(path, false);
  return contents_of(side.trace ? make_side(*side.trace) : make_side(*side.dump));
}

int record_model(const DiffCommandOptions& options, const std::string& model, const std::vector<std::string>& inputs,
                 const fs::path& target, Context& context) {
  const auto trace = trace_options(options, model, inputs, target);
  SupervisorOptions limits;
  if (!options.timeout.empty()) limits.timeout_seconds = parse_seconds("--timeout", options.timeout);
  return supervise(limits, [&](CrashSlate& slate) {
    const DiscardedStream discarded;
    Context quiet = context;
    quiet.out = Output(discarded.file(), false);
    quiet.format = Format::kText;
    quiet.verbosity = std::min(context.verbosity, -1);
    return guarded(quiet, [&] {
      set_phase(slate, "reading the files");
      const auto plan = plan_trace(trace);
      set_phase(slate, "opening the engine");
      const auto engine = open_engine(executable_directory());
      engine->set_crash_slate(&slate);
      return run_trace(plan, *engine, quiet, slate);
    });
  });
}

bool save_recorded_inputs(const std::string& recording, const fs::path& target) {
  const auto loaded = load_side(recording, true);
  const auto side = loaded.trace ? make_side(*loaded.trace) : make_side(*loaded.dump);
  std::vector<std::pair<std::string, HostTensor>> inputs;
  for (std::size_t row = 0; row < side.size(); ++row) {
    if (side.kind[row] != OpKind::kInput) continue;
    const auto value = value_of(side, row);
    if (value.evidence != Evidence::kFull || value.tensor->kind() != TensorKind::kStrided) return false;
    auto name = loaded.trace ? site_ref(side, row).module : site_ref(side, row).label;
    if (name.starts_with("input.")) name.erase(0, 6);
    inputs.emplace_back(std::move(name), value.tensor->to_host().at(0).tensor);
  }
  if (inputs.empty()) return false;
  SafetensorsWriter writer(target, SafetensorsWriter::header_space(inputs.size(), 64 * inputs.size()));
  for (const auto& [name, tensor] : inputs) writer.add(name, tensor);
  writer.finish();
  return true;
}

std::vector<std::vector<std::string>> input_samples(const std::vector<std::string>& inputs) {
  std::vector<std::vector<std::string>> samples = {{}};
  for (const auto& input : inputs) {
    const auto files = is_pattern(input) ? matching_files(input) : std::vector<std::string>{input};
    if (files.size() > 1 && samples.size() > 1 && files.size() != samples.size()) {
      throw Error(ErrorCode::kUsage, "--input " + input + " names " + std::to_string(files.size()) +
                                         " files, another pattern " + std::to_string(samples.size()));
    }
    if (files.size() > samples.size()) samples.resize(files.size(), samples.front());
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i].push_back(files[std::min(i, files.size() - 1)]);
  }
  return samples;
}

}  // namespace tl::cli

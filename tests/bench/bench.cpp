// Benchmarks against LibTorch's own run of the same file: ratios, measured in one process and one run.
//   torchlens_bench steady MODEL.ts.pt INPUTS.safetensors [ROUNDS]
//   torchlens_bench cold plain|none|all MODEL.ts.pt INPUTS.safetensors
//   torchlens_bench written MODEL.ts.pt INPUTS.safetensors FOLDER
//   torchlens_bench load_exported MODEL.pt2 SMALL.pt2
//   torchlens_bench load plain|checked MODEL.ts.pt
// One line of `name value` pairs each; scripts/bench makes the table.
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/bind_inputs.h"
#include "engine/engine.h"
#include "engine/input_files.h"
#include "plain_load.h"
#include "postprocess/pipeline.h"
#include "select/live_selector.h"
#include "select/lookup.h"
#include "tlspec/reader.h"
#include "tlspec/writer.h"
#include "trace/statistics_recorder.h"
#include "trace/trace.h"

extern "C" tl::Engine* torchlens_engine_open();

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

long resident_kb() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
  }
  return 0;
}

long peak_kb() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

struct Loaded {
  std::unique_ptr<tl::Session> session;
  tl::RunRequest request;
};

Loaded load(tl::Engine& engine, const std::string& model, const std::string& inputs) {
  tl::ModelRequest model_request;
  model_request.path = model;
  model_request.threads = 1;
  Loaded loaded;
  loaded.session = engine.load(model_request);
  const std::vector<tl::GivenSet> given = {tl::read_input_file(inputs)};
  auto bound = tl::bind_inputs(loaded.session->info().signature, given);
  loaded.request.arguments = std::move(bound.arguments);
  loaded.request.given = std::move(bound.given);
  loaded.request.reload = false;
  return loaded;
}

double timed_plain(Loaded& loaded) {
  const auto start = Clock::now();
  const auto result = loaded.session->run_plain(loaded.request);
  return seconds(start);
}

struct Recorded {
  double run = 0;      ///< everything of Session::run
  double forward = 0;  ///< without laying out the tables of the recording before and closing it after
  std::size_t events = 0;
};

/// What the recording does with values.
enum class Values { kLeft, kKept, kSelected, kMeasured };

/// Settled while the model runs, op by op, and true of few or none.
constexpr std::string_view kBenchSelector = R"(in_module("*.nowhere") & func("soft*") | where(numel > 1e12))";

Recorded timed_recorded(Loaded& loaded, Values values) {
  loaded.request.keep_payloads = values == Values::kKept || values == Values::kSelected;
  tl::StatisticsRecorder statistics(tl::kUsualStatistics);
  loaded.request.observer = values == Values::kMeasured ? &statistics : nullptr;
  std::optional<tl::LiveSelector> selector;
  if (values == Values::kSelected) selector.emplace(tl::Selector::parse(kBenchSelector));
  loaded.request.save.policy = selector ? &*selector : nullptr;
  tl::Capture capture;
  const auto start = Clock::now();
  const auto result = loaded.session->run(loaded.request, capture);
  return {seconds(start), result.forward_seconds, capture.events.size()};
}

int steady(tl::Engine& engine, const std::string& model, const std::string& inputs, int rounds) {
  auto plain = load(engine, model, inputs);
  auto traced = load(engine, model, inputs);
  for (int i = 0; i < 3; ++i) timed_plain(plain);
  timed_recorded(traced, Values::kKept);
  std::vector<double> plain_times, none_times, all_times, forward_times, selected_times, measured_times;
  std::size_t events = 0;
  for (int round = 0; round < rounds; ++round) {
    plain_times.push_back(timed_plain(plain));
    const auto none = timed_recorded(traced, Values::kLeft);
    none_times.push_back(none.run);
    events = none.events;
    forward_times.push_back(none.forward);
    all_times.push_back(timed_recorded(traced, Values::kKept).run);
    selected_times.push_back(timed_recorded(traced, Values::kSelected).run);
    measured_times.push_back(timed_recorded(traced, Values::kMeasured).run);
  }
  const auto base = median(plain_times);
  std::printf(
      "plain_ms %.4f none_ratio %.4f all_ratio %.4f events %zu us_per_op_none %.4f us_per_op_all %.4f "
      "forward_us_per_op_none %.4f us_per_op_selected %.4f stats_ratio %.4f\n",
      base * 1e3, median(none_times) / base, median(all_times) / base, events,
      (median(none_times) - base) * 1e6 / static_cast<double>(events),
      (median(all_times) - base) * 1e6 / static_cast<double>(events),
      (median(forward_times) - base) * 1e6 / static_cast<double>(events),
      (median(selected_times) - median(none_times)) * 1e6 / static_cast<double>(events), median(measured_times) / base);
  return 0;
}

int cold(tl::Engine& engine, const std::string& mode, const std::string& model, const std::string& inputs) {
  auto loaded = load(engine, model, inputs);
  const auto before = resident_kb();
  tl::Capture capture;
  loaded.request.keep_payloads = mode == "all";
  const auto start = Clock::now();
  if (mode == "plain")
    loaded.session->run_plain(loaded.request);
  else
    loaded.session->run(loaded.request, capture);
  const auto run = seconds(start);
  std::size_t kept_bytes = 0, kept = 0;
  if (capture.payloads) {
    std::vector<std::uint64_t> seen;
    kept = capture.payloads->size();
    for (std::size_t i = 0; i < kept; ++i) {
      const auto facts = capture.payloads->facts(tl::PayloadId{static_cast<std::uint32_t>(i)});
      if (std::ranges::find(seen, facts.storage) != seen.end()) continue;
      seen.push_back(facts.storage);
      std::size_t bytes = tl::item_bytes(facts.dtype);
      for (const auto size : facts.sizes) bytes *= static_cast<std::size_t>(size);
      kept_bytes += bytes;
    }
  }
  const auto events = capture.events.size();
  double steps = 0;
  if (mode != "plain") {
    const auto begin = Clock::now();
    const auto trace = tl::run_pipeline(std::move(capture));
    steps = seconds(begin);
  }
  std::printf("run_ms %.4f rss_before_kb %ld peak_kb %ld kept_bytes %zu kept %zu events %zu steps_ms %.3f\n", run * 1e3,
              before, peak_kb(), kept_bytes, kept, events, steps * 1e3);
  return 0;
}

/// Records, runs the steps, writes and reads back: seconds and bytes of each.
int written(tl::Engine& engine, const std::string& model, const std::string& inputs,
            const std::filesystem::path& folder) {
  auto loaded = load(engine, model, inputs);
  tl::Capture capture;
  loaded.request.keep_payloads = true;
  loaded.session->run(loaded.request, capture);
  const auto events = capture.events.size();
  auto start = Clock::now();
  const auto trace = tl::run_pipeline(std::move(capture));
  const auto steps = seconds(start);
  const auto target = folder / "bench.tlspec";
  std::filesystem::remove_all(target);
  start = Clock::now();
  const auto report = tl::write_tlspec(trace, target);
  const auto write = seconds(start);
  const auto columns = std::filesystem::file_size(target / "columns.safetensors") +
                       std::filesystem::file_size(target / "timing.safetensors");
  std::vector<double> opens, lookups;
  for (int i = 0; i < 5; ++i) {
    start = Clock::now();
    const auto opened = tl::read_tlspec(target);
    opens.push_back(seconds(start));
    const auto middle = tl::op_label(opened, tl::OpId{static_cast<std::uint32_t>(opened.num_ops() / 2)});
    start = Clock::now();
    if (!tl::look_up(opened, middle)) return 1;
    lookups.push_back(seconds(start));
  }
  std::printf(
      "events %zu steps_ms %.3f write_ms %.3f bytes %zu payload_bytes %zu column_bytes_per_op %.1f open_ms %.3f "
      "lookup_ms %.3f\n",
      events, steps * 1e3, write * 1e3, static_cast<std::size_t>(report.bytes),
      static_cast<std::size_t>(report.payload_bytes), static_cast<double>(columns) / static_cast<double>(events),
      median(opens) * 1e3, median(lookups) * 1e3);
  return 0;
}

/// Loads an exported program once: time, and the memory that it takes on the way. A small one is loaded before, so that
/// what the engine itself pages in is not counted.
int load_exported(tl::Engine& engine, const std::string& model, const std::string& small) {
  tl::ModelRequest request;
  request.path = small;
  engine.load(request);
  const auto before = resident_kb();
  request.path = model;
  const auto start = Clock::now();
  const auto session = engine.load(request);
  std::printf("load_ms %.3f rss_before_kb %ld peak_kb %ld\n", seconds(start) * 1e3, before, peak_kb());
  return 0;
}

/// Loads a file once, as a run does with all checks or as LibTorch does: a process loads but one, since what the first
/// leaves in the allocator makes the second faster.
int loading(tl::Engine& engine, const std::string& how, const std::string& model) {
  tl::ModelRequest request;
  request.path = model;
  const auto start = Clock::now();
  if (how == "checked")
    engine.load(request);
  else
    plain_load(model);
  std::printf("load_ms %.3f\n", seconds(start) * 1e3);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::unique_ptr<tl::Engine> engine(torchlens_engine_open());
  if (arguments.size() >= 3 && arguments[0] == "steady") {
    return steady(*engine, arguments[1], arguments[2], arguments.size() > 3 ? std::stoi(arguments[3]) : 11);
  }
  if (arguments.size() == 4 && arguments[0] == "cold") return cold(*engine, arguments[1], arguments[2], arguments[3]);
  if (arguments.size() == 4 && arguments[0] == "written")
    return written(*engine, arguments[1], arguments[2], arguments[3]);
  if (arguments.size() == 3 && arguments[0] == "load_exported") {
    return load_exported(*engine, arguments[1], arguments[2]);
  }
  if (arguments.size() == 3 && arguments[0] == "load") {
    return loading(*engine, arguments[1], arguments[2]);
  }
  std::fprintf(
      stderr,
      "usage: torchlens_bench load plain|checked MODEL | load_exported MODEL SMALL | written MODEL INPUTS FOLDER | "
      "steady MODEL INPUTS [ROUNDS] | cold "
      "plain|none|all MODEL INPUTS\n");
  return 2;
}

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "summary_options.h"

namespace tl::cli {

/// The options of `trace` that watch or stop the steps of postprocess.
struct StepOptions {
  bool list = false;                     ///< --list-steps
  std::vector<std::string> print_after;  ///< step names, or all
  bool print_changed = false;
  std::string dump_directory;
  bool verify_each = false;
  bool time = false;
  std::string stop_after;
};

/// What `trace` was asked for, as on the command line.
struct TraceOptions {
  std::string model;
  std::vector<std::string> inputs;   ///< --input, in order
  std::vector<std::string> randoms;  ///< --random
  std::string output;                ///< -o; empty: <stem>.tlspec in the working directory
  bool force = false;
  std::string save;         ///< auto, all, none, sample[=N] or a selector; empty: what the level implies
  std::string save_budget;  ///< bytes, or with KB, MB, GB
  bool stream = false;
  bool dry_run = false;
  std::string stop_after;  ///< a selector
  bool raise_on_nan = false;
  bool echo = false;
  bool sparse = false;
  std::string stats;  ///< names of statistics; empty: none
  std::string level = "portable";
  std::string save_outputs;  ///< FILE.safetensors
  std::string program;       ///< --model: which program of a file that holds several
  std::string method = "forward";
  bool train = false;
  bool eval = false;
  std::string device = "cpu";
  int threads = 0;  ///< 0: LibTorch's default
  std::int64_t seed = 0;
  bool grad = false;
  std::vector<std::string> libraries;
  std::vector<std::string> allowed_ops;
  std::string timeout;     ///< seconds, or with s, m, h
  std::string max_memory;  ///< bytes, or with KB, MB, GB
  bool witness = false;
  StepOptions steps;
  SummaryScreenOptions summary;
};

/// 30, 90s, 2m, 1h in seconds. Throws Error(kUsage).
double parse_seconds(const std::string& option, const std::string& text);
/// 1000000, 512MB, 8G in bytes, steps of 1024. Throws Error(kUsage).
std::size_t parse_bytes(const std::string& option, const std::string& text);

}  // namespace tl::cli

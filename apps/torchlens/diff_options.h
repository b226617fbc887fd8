#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tl::cli {

/// What `diff` was asked for, as on the command line.
struct DiffCommandOptions {
  std::string reference;
  std::string subject;
  std::vector<std::string> inputs;  ///< --input, for model files; one with * or ? names a file a sample
  std::vector<std::string> randoms;
  std::int64_t seed = 0;
  int threads = 0;
  std::vector<std::string> libraries;
  std::vector<std::string> allowed_ops;
  std::string timeout;
  bool is_static = false;
  std::string map;        ///< FILE of rules
  std::string write_map;  ///< FILE to write the inferred rules to
  bool force = false;     ///< replace write_map where it exists
  std::string only;       ///< SELECTOR
  double min_coverage = 0;
  bool exact = false;
  std::vector<std::string> rtol;  ///< VALUE or NAME=VALUE
  std::vector<std::string> atol;
  std::vector<std::string> gates;  ///< predicates
  std::string rules;               ///< FILE of them
  std::vector<std::string> fail_on;
  std::int64_t max_diffs = -1;  ///< rows to list; negative: what the report's form takes
  std::string format = "text";
  bool json = false;
  std::vector<std::string> reports;  ///< [FORMAT:]PATH
  std::string sort = "order";        ///< order, local, total, worst
};

/// The command line once more, to repeat the comparison.
std::string repeat_line(const DiffCommandOptions& options);

}  // namespace tl::cli

#pragma once

#include <string>
#include <vector>

#include "diff/align.h"
#include "diff/cause.h"
#include "diff/report.h"
#include "diff/side.h"
#include "diff/tolerance.h"
#include "diff/values.h"
#include "diff/weights.h"

namespace tl {

/// What makes the verdict negative.
enum class FailOn : std::uint8_t {
  kSites = 0,      ///< a site out of tolerance
  kOutputs = 1,    ///< an output of the model out of tolerance
  kArguments = 2,  ///< arguments of matched operations that differ
  kWeights = 3,    ///< weights or buffers that differ
  kInputs = 4,     ///< inputs that differ
  kStructure = 5,  ///< operations that only one side has and that may change a value
};

struct DiffOptions {
  std::string reference_name;  ///< as given on the command line
  std::string subject_name;
  Renamer rename;      ///< rules of --map, or empty
  bool values = true;  ///< false: --static
  ValueOptions value;
  const Tolerances* tolerances = nullptr;  ///< what the user said; sites that it does not speak of go by judge_by_floor
  /// Rows of the graph side (the subject, or the reference where the subject is a dump) to report; empty: all. Others
  /// are compared for the sake of causes but cannot fail the verdict.
  std::vector<bool> only;
  WeightSources weights;    ///< where values of parameters are, to say how those differ that do
  double min_coverage = 0;  ///< share of sites that must be compared, else Error(kCoverageTooLow)
  std::vector<FailOn> fail_on = {FailOn::kSites, FailOn::kOutputs};
  std::string again;  ///< the command to repeat
};

struct Compared {
  DiffReport report;
  Alignment alignment;
};

/// Compares two recordings. Throws Error: kEmptyRecording for a side without sites, kNoSharedSites where nothing but
/// inputs and outputs could be matched on any basis, kCoverageTooLow.
Compared compare_recordings(const Side& reference, const Side& subject, const DiffOptions& options);

/// One report of comparisons of the same models on several inputs: every row holds mean and worst over the samples and
/// the metrics of the worst one; the verdict is negative if one is. `names` are those of the inputs. Rows that not all
/// have are left out, and noted.
DiffReport merge_samples(std::vector<DiffReport> reports, const std::vector<std::string>& names);

}  // namespace tl

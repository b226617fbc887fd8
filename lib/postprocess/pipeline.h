#pragma once

#include <span>
#include <string>
#include <string_view>

#include "postprocess/step.h"
#include "trace/capture.h"
#include "trace/sparse_recording.h"
#include "trace/trace.h"

namespace tl {

struct PipelineOptions {
  std::string stop_after = {};  ///< name of the last step to run; empty: all. A trace stopped early is not finished.
  std::span<const SourceText> sources = {};  ///< texts of the model's functions, by which branches are named
};

/// The steps in order.
std::span<const Step> pipeline_steps();
/// The step of that name. Throws Error(kUsage) with the nearest names if there is none.
const Step& find_step(std::string_view name);

/// Takes the first steps alone, up to add-output-nodes, and settles the payloads.
SparseRecording make_sparse(Capture&& capture);

/// Takes the other steps: the Trace that run_pipeline would have made of the Capture. The columns own their rows; the
/// payload source of the recording counts in rows of payloads.
Trace finish_sparse(SparseRecording&& recording, std::span<StepObserver* const> observers = {});

/// Turns what a run recorded into a Trace. The observers see every step, in the order given.
Trace run_pipeline(Capture&& capture, std::span<StepObserver* const> observers = {},
                   const PipelineOptions& options = {});

}  // namespace tl

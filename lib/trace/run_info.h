#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace tl {

/// One leaf handed to the model, or one leaf it returned.
struct IoRecord {
  std::string role;    ///< structural path: input.x, input.batch.mask, output, output.0, output.logits
  std::string source;  ///< inputs: where it came from: x.safetensors:x, random, stored in the file, 3; outputs: empty
  DType dtype = DType::kNone;
  std::vector<std::int64_t> sizes;
  std::string scalar;         ///< text of a host value; empty for tensors
  std::optional<double> min;  ///< over finite elements, where the tensor has any
  std::optional<double> max;
  std::vector<std::pair<std::int64_t, double>>
      top;  ///< outputs whose last axis looks like classes: largest (index, value)
};

/// How the run ended. `status` is one of complete, halted, aborted_nonfinite, failed, interrupted.
struct Outcome {
  std::string status = "complete";
  std::string phase = "forward";     ///< forward, finalize, postprocess, teardown
  std::string origin;                ///< user_op, torchlens, interrupt; empty when complete
  std::string reason;                ///< the error's text, or why it was halted
  std::string error_type;            ///< RuntimeError, AssertionError …; empty when none
  std::string boundary_kind;         ///< op, module_exit; where it stopped
  std::string boundary_label;        ///< op name or module address where it stopped
  std::int64_t n_ops_committed = 0;  ///< operations recorded before the end
  std::vector<std::string>
      frontier_labels;                ///< labels of the Ops at the boundary: what it halted at, or was handed last
  std::string module;                 ///< address of the module whose forward ran there; empty for the root
  std::string call_site;              ///< file.py:12, where the boundary stands in the source
  std::vector<std::string> operands;  ///< of an operation that raised: name and type, `mat1 f32[3,4]`
  bool complete() const { return status == "complete"; }
};

/// What the recording knows about its own quality.
struct Health {
  std::int64_t operator_calls = 0;              ///< operator instructions executed
  std::int64_t recorded_calls = 0;              ///< of these, recorded as Ops or flow
  bool witnessed = false;                       ///< the dispatcher census ran beside the capture
  std::int64_t dispatcher_calls = 0;            ///< top-level dispatcher calls the census saw
  std::int64_t unaccounted_calls = 0;           ///< census calls that no record accounts for
  std::vector<std::string> nonfinite;           ///< raw or final labels of first producers of NaN or Inf
  bool nonfinite_checked = false;               ///< kept payloads were examined
  std::vector<std::string> unannounced_writes;  ///< operators that changed an argument without saying so
  std::vector<std::string> unknown_ops;         ///< operators outside the tables, handled by the default row
  std::vector<std::string> skipped_payloads;    ///< op name and reason
  std::vector<std::string> state_changed;       ///< addresses of parameters and buffers the run wrote
};

/// Facts of the run that the manifest stores.
struct RunInfo {
  std::string model_file;    ///< file name without directory
  std::string model_kind;    ///< torchscript script, torchscript trace, exported program
  std::string model_digest;  ///< XXH3-128 of the file, hex
  std::int64_t model_bytes = 0;
  std::string model_class;  ///< class of the root module
  std::string engine;       ///< LibTorch 2.13.0
  std::string method = "forward";
  std::string mode;  ///< eval, train, mixed, baked
  std::string device = "cpu";
  std::string dtype;         ///< element type of most parameters, short name
  std::string save = "all";  ///< what --save asked for
  std::string save_note;     ///< what became of it where that is something else: values beyond a budget were sampled
  std::int64_t threads = 1;
  std::int64_t seed = 0;
  bool grad = false;
  std::vector<IoRecord> inputs;
  std::vector<IoRecord> outputs;
  Outcome outcome;
  Health health;
  double load_seconds = 0;     ///< volatile
  double forward_seconds = 0;  ///< volatile
};

}  // namespace tl

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/tensor_ref.h"

namespace tl {

/// On what a recorded value rests, weakest first.
enum class Evidence : std::uint8_t {
  kShape = 0,       ///< sizes and element type only
  kStatistics = 1,  ///< numbers over all elements
  kSampled = 2,     ///< the elements at sample_positions
  kFull = 3,        ///< every element
};

/// Numbers over the elements of a value that was not kept; absent where the recorder did not take them.
struct DumpStatistics {
  std::optional<double> min, max, sum, mean, abs_mean, std, l2;
  std::optional<std::int64_t> nan, inf, zeros;
};

/// A module of a recording made elsewhere.
struct DumpModule {
  std::string address;
  std::string class_name;       ///< LayerNorm
  std::string qualified_class;  ///< torch.nn.modules.normalization.LayerNorm; empty if unknown
  std::string file;             ///< source of the forward; empty if unknown
  std::int64_t line = 0;
  /// What it was built with, by name: literals as in arg_template (1e-05, [1, 1], "tanh").
  std::vector<std::pair<std::string, std::string>> constants;
};

/// One tensor of a recording made elsewhere: the output of a module call, a tap, a named tensor of a file.
struct DumpEntry {
  std::string name;       ///< module address or the name it was given: blocks.0.attn
  std::string path;       ///< place in a structured output: empty, 0, logits
  std::int64_t call = 1;  ///< which call of that name, from 1
  std::string class_name;
  std::string file;  ///< source of the forward, as the recorder saw it; empty if unknown
  std::int64_t line = 0;
  DType dtype = DType::kNone;
  std::vector<std::int64_t> sizes;
  Evidence evidence = Evidence::kFull;
  TensorRefPtr value;  ///< full: the tensor; sampled: 1-d, the elements at sample_positions; else null
  DumpStatistics statistics;
  bool has_sizes = true;  ///< false: the recording states no shape, and `sizes` is empty
  bool is_tap = false;    ///< named by whoever recorded it, not the output of a module
  bool is_op = false;     ///< the output of one operation, and `name` its label (linear_1_3)
  std::string operation;  ///< its functional name (linear), where is_op and the recording says so
  std::string module;     ///< the innermost module call around an operation, cell.i2h:1; empty outside or unknown
  std::int32_t module_row = -1;  ///< of Dump::modules, the module whose output it is; -1 where none is known
  std::string scalar;            ///< inputs that are host values: the value as JSON (3, true, null); empty for tensors
};

/// A parameter or buffer of the model on the other side.
struct DumpParam {
  std::string address;
  std::vector<std::string> other_addresses;  ///< of the same tensor (tied weights)
  DType dtype = DType::kNone;
  std::vector<std::int64_t> sizes;
  std::string digest;  ///< as params.digest (XXH3-128 of the packed elements, hex); empty if unknown
  bool is_buffer = false;
  TensorRefPtr value;  ///< null where the recording has no values
};

/// The least form of a recording: named values in the order of execution, no dataflow. Read from what
/// `torchlens recorder` makes and from dumps of other tools.
struct Dump {
  std::string kind;      ///< of the recording: torchlens recorder, Python TorchLens, safetensors file …
  std::string producer;  ///< tool and version, as the recording says; empty if unknown
  std::string engine;    ///< torch 2.13.0; empty if unknown
  std::string device;
  std::string mode;  ///< eval, train, mixed; empty if unknown
  std::optional<std::int64_t> seed;
  std::string model_class;
  std::vector<DumpEntry> entries;
  std::vector<DumpEntry> inputs;   ///< name: structural path of the argument (x, batch.mask)
  std::vector<DumpEntry> outputs;  ///< name: structural path (output, output.0, output.logits)
  std::vector<DumpParam> params;
  std::vector<DumpModule> modules;
  std::string outcome = "complete";  ///< complete, failed
  std::string reason;                ///< of a failed one
  std::vector<std::string> notes;    ///< what the reader left out or weakened, for people
};

}  // namespace tl

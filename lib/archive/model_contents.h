#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "archive/script_code.h"
#include "tensor/dtype.h"

namespace tl {

/// A parameter, buffer or constant as a file or recording holds it.
struct ModelTensor {
  enum class Kind : std::uint8_t {
    kParameter,
    kBuffer,
    kConstant,  ///< of the code, lifted out of a graph, or inside a container or packed object
    kUnknown,   ///< of a file of tensors, which does not tell
  };
  std::string name;
  std::vector<std::string> other_names;  ///< of the same tensor, where the source lists it once (tied weights)
  Kind kind = Kind::kUnknown;
  DType dtype = DType::kNone;
  std::vector<std::int64_t> sizes;
  std::string digest;  ///< XXH3-128 of the packed elements, hex; for quantised and sparse tensors of all their parts,
                       ///< with the layout in front; empty if unknown
};

struct ModelModule {
  std::string path;        ///< `blocks.0.attn`; empty for the root
  std::string class_name;  ///< as the source spells it, qualified or not; empty if unknown
  std::optional<bool> training;
};

/// An argument of forward, or a leaf of one.
struct ModelInput {
  std::string name;                ///< `x`, `batch_mask`
  std::string type;                ///< Tensor, Optional[Tensor], int; empty if not stated
  DType dtype = DType::kNone;      ///< kNone: not stated, or no tensor
  std::vector<std::string> sizes;  ///< numbers, or expressions over symbols, which are numbered in order: `2*s0`
  bool has_sizes = false;          ///< the source binds callers to `sizes`
  bool optional = false;           ///< it has a default, or may be None
};

/// One call of an operator in the graph of an exported program.
struct ModelCall {
  std::string label;       ///< name of the node: linear_1
  std::string module;      ///< path of the innermost module around it
  std::string class_name;  ///< of that module
  int module_call = 0;     ///< which call of the module, from 0
  std::string target;      ///< as written: torch.ops.aten.linear.default
  std::string func_name;   ///< linear
  std::string file;
  std::int64_t line = 0;
  DType dtype = DType::kNone;  ///< of its first tensor output
  std::vector<std::string> sizes;
  /// Name in the schema (or position) and literal; a tensor is `tensor`, a parameter `weight NAME`, a number that only
  /// a run knows `?`. Arguments with the default of the schema are not written by torch.export.
  std::vector<std::pair<std::string, std::string>> arguments;
};

/// How a source writes operators: only equal ones can be counted against each other.
enum class OperatorForm : std::uint8_t {
  kNone,           ///< it has none
  kScriptSource,   ///< places in the code of a TorchScript script
  kTraceSource,    ///< the same of a TorchScript trace
  kExportedGraph,  ///< nodes of an exported program of dialect `dialect`
  kExecuted,       ///< operations of a run
};

/// What can be known of a model without running it: from its file, a recording of it, or a file of its weights. What a
/// source does not tell is empty.
struct ModelContents {
  std::string kind;     ///< TorchScript script, exported program, state_dict …
  std::string details;  ///< joined by ` · `, `kind` first
  std::string model_class;
  std::string mode;   ///< eval, train, mixed; empty where the file does not say or it is baked in
  std::string dtype;  ///< of most parameters
  std::vector<ModelTensor> tensors;
  bool only_tensors = false;  ///< a file of tensors: what it lacks may be a buffer that is not persistent
  std::vector<ModelModule> modules;
  bool all_modules = false;  ///< `modules` lists those that did not run too
  std::vector<ModelInput> inputs;
  bool has_inputs = false;
  std::vector<std::pair<std::string, std::string>> ranges;       ///< numbered symbols and what they may be: s0, `2..64`
  std::vector<std::pair<std::string, std::uint64_t>> operators;  ///< by name, without overload; how often
  OperatorForm operator_form = OperatorForm::kNone;
  std::string dialect;
  std::vector<ModelCall> calls;  ///< of exported programs, subgraphs where their node stands
  std::vector<ScriptUnit> code;  ///< of TorchScript files
  std::vector<std::pair<std::string, std::string>> attributes;  ///< `fc.in_features` and literal
  std::vector<std::string> notes;                               ///< what was left out
};

/// True if `path` is a model file or a file of tensors that read_model_contents reads: TorchScript, exported program,
/// state_dict, safetensors.
bool has_model_contents(const std::filesystem::path& path);

/// Names of the tensors of a state_dict or safetensors file, whose bytes are not read; empty for other files. Throws
/// Error as the readers do.
std::vector<std::string> tensor_file_names(const std::filesystem::path& path);

/// Reads what a TorchScript file, an exported program, a state_dict or a safetensors file holds, without LibTorch and
/// without executing any of it. Checksums are verified; digests are taken of every tensor, at the speed of memory with
/// `threads` threads. Throws Error as the readers do, and the refusal of what is no such file.
ModelContents read_model_contents(const std::filesystem::path& path, unsigned threads);

}  // namespace tl

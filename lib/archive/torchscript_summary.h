#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "archive/script_outline.h"
#include "archive/torchscript_scan.h"
#include "tensor/dtype.h"

namespace tl {

class ZipDirectory;

/// Tensors of one sort. A tensor that is seen under several names (the same elements of one storage) counts once.
struct TensorTotals {
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;  ///< of the elements, without gaps

  TensorTotals& operator+=(const TensorTotals& other);
};

/// One module instance, in the order of registration, a parent before what it holds.
struct ScriptModule {
  std::string path;         ///< `layer1.0.conv1`; empty for the root
  std::string class_name;   ///< `torch.nn.modules.conv.Conv2d`
  std::size_t parent = 0;   ///< index; the root's own for the root
  std::size_t depth = 0;    ///< of the root: 0
  TensorTotals parameters;  ///< its own, tied ones at the module that comes first
  TensorTotals buffers;     ///< likewise
  TensorTotals constants;   ///< other tensors among its attributes
  bool restored = false;    ///< its attributes come from `__setstate__`, which runs while the file is loaded
};

/// A tensor whose values the file does not hold but whose shape it tells (inputs that a trace was made with).
struct StoredInput {
  std::string method;
  std::string name;  ///< of the parameter that takes it; with a path inside it (`batch.0`) where it is a container's
  DType dtype = DType::kNone;  ///< kNone: no tensor
  std::vector<std::int64_t> sizes;
  std::string value;  ///< of what is no tensor
};

/// What a TorchScript file holds, found without LibTorch and without executing any of it.
struct TorchScriptSummary {
  bool traced = false;
  std::string mode;                   ///< eval, train, mixed, baked; empty without a tree
  std::string dtype;                  ///< element type of most parameters; empty without any
  std::vector<ScriptModule> modules;  ///< the root first; empty where `tree_error` says why
  std::string tree_error;
  std::vector<ScriptMethod> methods;  ///< of the root class
  TensorTotals parameters;
  TensorTotals buffers;
  TensorTotals constants;                      ///< of modules and of the code (a frozen model's weights)
  std::vector<std::vector<std::string>> tied;  ///< names of one parameter or buffer, where it has several
  std::vector<StoredInput> inputs;
  TorchScriptScan scan;
};

/// Time and memory are linear in the structure, not in the weights, which are not read. Throws Error as
/// scan_torchscript, and kFileDamaged, kFileHostile, kFileLimits for its pickles. A pickle that only holds what this
/// reader does not know leaves `modules` empty. With `classes`, what the sources declare is put there.
TorchScriptSummary summarise_torchscript(const ZipDirectory& zip, ScriptClasses* classes = nullptr);

}  // namespace tl

#include "torchscript/registry_names.h"

#include <ATen/core/class_type.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/frontend/builtin_functions.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/custom_class.h>

#include <array>
#include <set>

namespace tl::lt {
namespace {

constexpr std::string_view kClassPrefix = "__torch__.torch.classes.";

/// Functions that builtin_functions.cpp defines in TorchScript; the registry answers by name only. One that a release
/// drops is left out by itself.
constexpr std::array kBuiltinFunctions = {"aten::_assert_int_or_pair",
                                          "aten::_list_with_default",
                                          "aten::add",
                                          "aten::broadcast_tensors",
                                          "aten::div",
                                          "aten::floordiv",
                                          "aten::meshgrid",
                                          "aten::mul",
                                          "aten::ne",
                                          "aten::sub",
                                          "prim::H",
                                          "prim::T",
                                          "prim::mH",
                                          "prim::mT",
                                          "prim::ndim",
                                          "prim::itemsize"};

/// Classes that no operator of LibTorch takes or returns.
constexpr std::array kOwnClasses = {"_nnapi.Compilation",
                                    "c10d.ProcessGroup",
                                    "c10d.ReduceOp",
                                    "c10d.Work",
                                    "cuda.Event",
                                    "cuda.Stream",
                                    "dist_c10d.Store",
                                    "dist_rpc.WorkerInfo",
                                    "mkldnn.ConvOpContext",
                                    "profiling.SourceStats",
                                    "profiling.SourceRef",
                                    "profiling.InstructionStats",
                                    "profiling.SourceRange",
                                    "profiling._ScriptProfile",
                                    "quantized.Conv2dPackedParamsBase",
                                    "quantized.Conv3dPackedParamsBase",
                                    "quantized.EmbeddingPackedParamsBase",
                                    "quantized.LinearPackedParamsBase",
                                    "rnn.CellParamsBase",
                                    "sparse.LinearPackedParamsBase",
                                    "xnnpack.Conv2dOpContext",
                                    "xnnpack.LinearOpContext",
                                    "xnnpack.TransposeConv2dOpContext"};

void collect(const c10::Type& type, std::set<std::string>& names) {
  if (const auto* named = type.castRaw<c10::ClassType>(); named != nullptr && named->name()) {
    const auto& name = named->name()->qualifiedName();
    if (name.rfind(kClassPrefix, 0) == 0) names.insert(name);
    return;  // what its methods take is registered with it
  }
  for (const auto& contained : type.containedTypes()) collect(*contained, names);
}

}  // namespace

std::vector<std::string> known_operator_names() {
  std::set<std::string> names;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) names.insert(name.name);
  for (const auto& op : torch::jit::getAllOperators()) names.insert(op->schema().name());
  for (const char* name : kBuiltinFunctions) {
    if (!torch::jit::getAllBuiltinFunctionsFor(c10::Symbol::fromQualString(name)).empty()) names.insert(name);
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> known_class_names() {
  std::set<std::string> names;
  for (const auto& op : torch::jit::getAllOperators()) {
    for (const auto& argument : op->schema().arguments()) collect(*argument.type(), names);
    for (const auto& result : op->schema().returns()) collect(*result.type(), names);
  }
  for (const char* name : kOwnClasses) {
    if (auto qualified = std::string(kClassPrefix) + name; is_known_class(qualified))
      names.insert(std::move(qualified));
  }
  return {names.begin(), names.end()};
}

bool is_known_class(const std::string& qualified_name) { return torch::getCustomClass(qualified_name) != nullptr; }

}  // namespace tl::lt

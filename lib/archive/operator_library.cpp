#include "archive/operator_library.h"

#include <algorithm>
#include <array>

namespace tl {
namespace {

struct Row {
  std::string_view space;
  OperatorLibrary library;
};

constexpr std::string_view kInPython = "its operators are registered by Python code only";

/// Sorted by namespace. File names are those of the libraries' own releases.
constexpr std::array kLibraries = {
    Row{"_c10d_functional", {"LibTorch built with distributed", "", "use a LibTorch built with USE_DISTRIBUTED"}},
    Row{"aten",
        {"a newer LibTorch", "", "save the model with the release that runs it, or build with a newer LibTorch"}},
    Row{"c10d", {"LibTorch built with distributed", "", "use a LibTorch built with USE_DISTRIBUTED"}},
    Row{"cuda", {"LibTorch built with CUDA", "", "use a LibTorch built with CUDA"}},
    Row{"detectron2", {"detectron2", "_C.so of the detectron2 package", ""}},
    Row{"fbgemm", {"FBGEMM", "fbgemm_gpu_py.so of the fbgemm_gpu package", ""}},
    Row{"flash_attn", {"FlashAttention", "", kInPython}},
    Row{"metal", {"LibTorch built with Metal", "", "use a LibTorch built with Metal"}},
    Row{"metal_prepack", {"LibTorch built with Metal", "", "use a LibTorch built with Metal"}},
    Row{"mkldnn_prepacked", {"LibTorch built with oneDNN", "", "use a LibTorch built with oneDNN"}},
    Row{"neuron", {"torch-neuron", "libtorchneuron.so of the torch_neuron package", ""}},
    Row{"onednn", {"LibTorch built with oneDNN", "", "use a LibTorch built with oneDNN"}},
    Row{"prepacked", {"LibTorch built with XNNPACK", "", "save the model again without optimize_for_mobile"}},
    Row{"prim",
        {"a newer LibTorch", "", "save the model with the release that runs it, or build with a newer LibTorch"}},
    Row{"pyg", {"pyg-lib", "libpyg.so of the pyg_lib package", ""}},
    Row{"quantized", {"LibTorch built with quantised kernels", "", "use a LibTorch built with FBGEMM or QNNPACK"}},
    Row{"quantized_decomposed",
        {"torch.ao.quantization (in Python)", "", "save the model after converting it to quantised modules"}},
    Row{"spconv", {"spconv", "", kInPython}},
    Row{"tensorrt", {"Torch-TensorRT", "libtorchtrt_runtime.so of the torch_tensorrt package", ""}},
    Row{"torch_cluster", {"torch-cluster", "_*_cpu.so of the torch_cluster package", ""}},
    Row{"torch_ipex", {"Intel Extension for PyTorch", "libintel-ext-pt-cpu.so of that package", ""}},
    Row{"torch_scatter", {"torch-scatter", "_scatter_cpu.so of the torch_scatter package", ""}},
    Row{"torch_sparse", {"torch-sparse", "_spmm_cpu.so of the torch_sparse package", ""}},
    Row{"torch_spline_conv", {"torch-spline-conv", "_basis_cpu.so of the torch_spline_conv package", ""}},
    Row{"torchao", {"torchao", "_C*.so of the torchao package", ""}},
    Row{"torchaudio", {"torchaudio", "lib/libtorchaudio.so of the torchaudio package", ""}},
    Row{"torchtext", {"torchtext", "lib/libtorchtext.so of the torchtext package", ""}},
    Row{"torchvision", {"torchvision", "libtorchvision.so, or _C.so of the torchvision package", ""}},
    Row{"xformers", {"xFormers", "_C.so of the xformers package", ""}},
    Row{"xnnpack", {"LibTorch built with XNNPACK", "", "save the model again without optimize_for_mobile"}},
};
static_assert(std::ranges::is_sorted(kLibraries, {}, &Row::space), "kLibraries: keep sorted");

std::string_view namespace_of(std::string_view name) {
  constexpr std::string_view kClasses = "__torch__.torch.classes.";
  if (name.starts_with(kClasses)) {
    name.remove_prefix(kClasses.size());
    return name.substr(0, name.find('.'));
  }
  return name.substr(0, name.find("::"));
}

}  // namespace

OperatorLibrary library_of(std::string_view operator_or_class) {
  const std::string_view space = namespace_of(operator_or_class);
  const auto row = std::ranges::lower_bound(kLibraries, space, {}, &Row::space);
  return row != kLibraries.end() && row->space == space ? row->library : OperatorLibrary{};
}

std::string load_library_hint(std::string_view operator_or_class) {
  const std::string space(namespace_of(operator_or_class));
  const OperatorLibrary library = library_of(operator_or_class);
  if (library.name.empty()) return "pass --load-library FILE with the shared library that registers " + space;
  if (library.file.empty())
    return space + " comes from " + std::string(library.name) + ": " + std::string(library.note);
  return "pass --load-library FILE with the library of " + std::string(library.name) + ": " +
         std::string(library.file) + ", built against the same LibTorch";
}

}  // namespace tl

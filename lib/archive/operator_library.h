#pragma once

#include <string>
#include <string_view>

namespace tl {

/// Who registers the operators and classes of a namespace.
struct OperatorLibrary {
  std::string_view name;  ///< in words: torchvision, FBGEMM; empty: not known
  std::string_view file;  ///< what to pass to --load-library; empty where no shared library registers them
  std::string_view note;  ///< what to do where there is no such file
};

/// The library of a qualified operator (`torchvision::nms`) or registered class (`__torch__.torch.classes.ns.Class`),
/// by its namespace. Names that begin with aten or prim are LibTorch's own.
OperatorLibrary library_of(std::string_view operator_or_class);

/// One line for a hint: the library that registers it and the option to type.
std::string load_library_hint(std::string_view operator_or_class);

}  // namespace tl

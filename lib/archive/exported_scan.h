#pragma once

#include <string>

#include "archive/exported_program.h"
#include "archive/torchscript_scan.h"

namespace tl {

/// The operators and registered classes that the graphs of an exported program use, in the form that a scan of
/// TorchScript sources has, so that the same refusals and screens serve both: `file` is the first node that uses the
/// name, `line` 0. Operators handed over as values (auto_functionalized, with_effects) count; functions of Python and
/// higher-order operators are left out.
TorchScriptScan scan_exported(const ExportedProgram& program);

/// `aten::add` for `torch.ops.aten.add.Tensor`; empty for functions of Python and higher-order operators.
std::string qualified_operator(const std::string& target);

}  // namespace tl

#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "archive/exported_program.h"
#include "engine/exported_interface.h"
#include "engine/input_value.h"

namespace tl::lt {

/// The values of an exported program's inputs that the user gives, by leaf. `values` holds null where an argument was
/// not given and the file fixes its value. Checks what the file states: element types, ranks, sizes, ranges of symbols
/// and that one symbol has one value (`x.shape[0] = 99, allowed 2..16`), constants. Throws Error(kInputMismatch) with
/// all misfits. Tensors whose strides differ from those recorded are laid out anew; `notes` says which.
std::vector<c10::IValue> checked_inputs(const ExportedProgram& program, const ExportedInterface& interface,
                                        const std::vector<const InputValue*>& values, c10::Device device,
                                        std::vector<std::string>& notes);

}  // namespace tl::lt

#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>

#include <string>

#include "program/program.h"
#include "program/static_tables.h"

namespace tl::lt {

/// True for types of host values: numbers, strings, devices, and lists and Optionals of them.
bool is_host_type(const c10::Type& type);

/// What becomes of an output of this type. `container`: the operation moves values in or out of containers.
Emit emit_for(const c10::Type& type, bool container);

/// Sets what schema and op table say of an operator's writes and memory: announced and hidden writes, whether it is
/// foreign, its out-of-place form. `instruction.dispatched` must be set.
void set_operator_facts(Instruction& instruction, const c10::FunctionSchema& schema);

/// How an instruction reads in the record.
struct InstructionText {
  std::string op_name;      ///< aten::relu_
  std::string overload;     ///< empty for none
  std::string func_name;    ///< relu_
  std::string arguments;    ///< the template: `self=%0, p=0.5`
  std::string value_names;  ///< names of the outputs in the source, joined by a comma
};

/// Appends the instruction's row and sets `row` and `where`; its call site and facts must be set. `schema` may be null.
void append_instruction(StaticTables& tables, Instruction& instruction, const InstructionText& text,
                        const c10::FunctionSchema* schema);

}  // namespace tl::lt

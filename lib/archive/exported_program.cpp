#include "archive/exported_program.h"

#include <algorithm>

namespace tl {
namespace {

template <typename T>
const T* pointee(const ExportedArgument& argument) {
  const auto* shared = std::get_if<std::shared_ptr<const T>>(&argument.data);
  return shared ? shared->get() : nullptr;
}

}  // namespace

const ExportedList* ExportedArgument::list() const { return pointee<ExportedList>(*this); }
const ExportedDict* ExportedArgument::dict() const { return pointee<ExportedDict>(*this); }
const ExportedGraph* ExportedArgument::graph() const { return pointee<ExportedGraph>(*this); }

const ExportedPayload* ExportedProgram::find_payload(const std::string& name) const {
  const auto found = std::ranges::find(payloads, name, &ExportedPayload::name);
  return found == payloads.end() ? nullptr : &*found;
}

const ExportedModuleCall* ExportedProgram::root_call() const {
  const auto found = std::ranges::find(module_calls, std::string(), &ExportedModuleCall::fqn);
  return found == module_calls.end() || !found->has_signature ? nullptr : &*found;
}

}  // namespace tl

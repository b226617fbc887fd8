#pragma once

#include <string>
#include <vector>

namespace tl::lt {

/// What LibTorch knows now: dispatcher, JIT registry and the functions that LibTorch itself writes in TorchScript;
/// qualified names, sorted, without overloads.
std::vector<std::string> known_operator_names();

/// Registered classes, qualified (`__torch__.torch.classes.ns.Class`), sorted: those that operators take or return, and
/// the rest of LibTorch's own. LibTorch does not list them, so those of other libraries that no operator mentions are
/// left out; is_known_class knows them.
std::vector<std::string> known_class_names();

bool is_known_class(const std::string& qualified_name);

}  // namespace tl::lt

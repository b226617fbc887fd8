#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/torchscript_scan.h"
#include "core/error.h"

namespace tl {

/// What of a scan an engine does not know.
struct MissingNames {
  std::vector<ScriptUse> operators;
  std::vector<ScriptUse> classes;

  bool empty() const { return operators.empty() && classes.empty(); }
};

using KnowsName = std::function<bool(const std::string& name)>;

/// Python operators (`^Name`) are none of them: they are unsafe_uses.
MissingNames missing_names(const TorchScriptScan& scan, const KnowsName& knows_operator, const KnowsName& knows_class);

/// The refusal of a file with missing names, all of them at once, with the libraries they come from: kMissingOperators,
/// or kMissingClasses if only classes are missing. nullopt if nothing is.
std::optional<Error> missing_refusal(const MissingNames& missing, const std::string& file_name);

/// The refusal of a file that uses unsafe operators or classes outside `allowed` (kUnsafeOperator), with the options
/// that allow them. nullopt if there are none.
std::optional<Error> unsafe_refusal(const TorchScriptScan& scan, std::span<const std::string> allowed,
                                    const std::string& file_name);

/// `code/__torch__/m.py:12`, and that it runs while loading where it stands in a `__setstate__`; `data.pkl` for a
/// pickle.
std::string place_of(const ScriptUse& use);

}  // namespace tl

#include "archive/torchscript_refusal.h"

#include <algorithm>

#include "archive/operator_library.h"

namespace tl {
namespace {

constexpr std::size_t kMaxNamed = 50;

std::string listed(const std::vector<ScriptUse>& uses, const std::string& command_hint) {
  std::string text;
  for (std::size_t i = 0; i < std::min(uses.size(), kMaxNamed); ++i) {
    text += (i > 0 ? ", " : "") + uses[i].name + " (" + place_of(uses[i]) + ")";
  }
  if (uses.size() > kMaxNamed) {
    text += " and " + std::to_string(uses.size() - kMaxNamed) + " more (" + command_hint + " lists them)";
  }
  return text;
}

/// The hints of all libraries that are needed, each once.
std::string library_hints(const MissingNames& missing) {
  std::vector<std::string> hints;
  const auto add = [&](const ScriptUse& use) {
    std::string hint = load_library_hint(use.name);
    if (std::ranges::find(hints, hint) == hints.end()) hints.push_back(std::move(hint));
  };
  std::ranges::for_each(missing.operators, add);
  std::ranges::for_each(missing.classes, add);
  std::string text;
  for (const auto& hint : hints) text += (text.empty() ? "" : "; ") + hint;
  return text;
}

}  // namespace

std::string place_of(const ScriptUse& use) {
  std::string place = use.file;
  if (use.line > 0) place += ':' + std::to_string(use.line);
  if (use.in_setstate) place += ", in " + use.function + ", which runs while the file is loaded";
  return place;
}

MissingNames missing_names(const TorchScriptScan& scan, const KnowsName& knows_operator, const KnowsName& knows_class) {
  MissingNames missing;
  for (const auto& use : scan.operators) {
    if (!use.name.starts_with('^') && !knows_operator(use.name)) missing.operators.push_back(use);
  }
  for (const auto& use : scan.classes) {
    if (!knows_class(use.name)) missing.classes.push_back(use);
  }
  return missing;
}

std::optional<Error> missing_refusal(const MissingNames& missing, const std::string& file_name) {
  if (missing.empty()) return std::nullopt;
  const std::string command = "torchlens show --json";
  std::string message = file_name + ": no loaded library registers ";
  message += listed(missing.operators, command);
  if (!missing.classes.empty()) {
    if (!missing.operators.empty())
      message += ", nor the class" + std::string(missing.classes.size() > 1 ? "es " : " ");
    message += listed(missing.classes, command);
  }
  const auto code = missing.operators.empty() ? ErrorCode::kMissingClasses : ErrorCode::kMissingOperators;
  return Error(code, message, library_hints(missing));
}

std::optional<Error> unsafe_refusal(const TorchScriptScan& scan, std::span<const std::string> allowed,
                                    const std::string& file_name) {
  auto uses = unsafe_uses(scan);
  std::erase_if(uses, [&](const ScriptUse& use) { return std::ranges::find(allowed, use.name) != allowed.end(); });
  if (uses.empty()) return std::nullopt;
  std::string options;
  for (const auto& use : uses)
    options += " --allow-op " + (use.name.starts_with('^') ? "'" + use.name + "'" : use.name);
  return Error(
      ErrorCode::kUnsafeOperator,
      file_name + ": uses operators with effects outside the process: " + listed(uses, "torchlens show --json"),
      "pass" + options + " to run it all the same");
}

}  // namespace tl

#pragma once

#include <vector>

#include "archive/model_contents.h"
#include "diff/report.h"
#include "diff/side.h"

namespace tl {

/// Arguments of forward: names, and what both sides state of element types and sizes.
Precondition compare_signatures(const ModelContents& reference, const ModelContents& subject);

/// Modules by path: which only one side has (where both list all they have), which are of another class.
Precondition compare_module_trees(const ModelContents& reference, const ModelContents& subject, const Renamer& rename);

/// The modes as wholes, and modules that train on one side only.
Precondition compare_modes(const ModelContents& reference, const ModelContents& subject, const Renamer& rename);

/// Operators by name. Where the two are not written alike, which only one uses is listed and nothing judged.
Precondition compare_operators(const ModelContents& reference, const ModelContents& subject);

/// Classes and functions of TorchScript sources: those of modules by path, functions by name.
Precondition compare_code(const ModelContents& reference, const ModelContents& subject, const Renamer& rename);

/// Numbers, strings and lists that modules of TorchScript files hold beside tensors; those that both have.
Precondition compare_attributes(const ModelContents& reference, const ModelContents& subject, const Renamer& rename);

/// Pairs the calls of two exported programs, by module, operator and order, then by what stands between pairs, and
/// fills sites, changes and coverage of the report.
void compare_calls(const ModelContents& reference, const ModelContents& subject, const Renamer& rename,
                   DiffReport& report);

/// True if a call passes its input on as it is, yields no tensor, or only wraps calls that are listed too.
bool is_neutral_call(const SiteRef& call);

}  // namespace tl

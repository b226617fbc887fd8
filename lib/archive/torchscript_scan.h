#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "archive/script_outline.h"

namespace tl {

class ZipDirectory;

/// A place in a TorchScript file where a name is used, and how often it is in all: the first place in a `__setstate__`,
/// which runs while the file is loaded, if there is one, else the first of all.
struct ScriptUse {
  std::string name;         ///< operator `aten::relu` (without overload), class `__torch__.torch.classes.ns.Class`,
                            ///< member `save`
  std::string file;         ///< entry below the root: `code/__torch__/zoo_models.py`, `data.pkl`
  std::uint32_t line = 0;   ///< from 1; 0 in a pickle
  std::uint64_t count = 0;  ///< of all places
  std::string function;     ///< method or function it stands in: `Writer.__setstate__`; empty outside of any
  bool in_setstate = false;
};

/// What the sources of a TorchScript file use, found by cutting them into tokens as LibTorch's lexer does: nothing is
/// parsed by LibTorch, nothing executed. Each list is sorted by name; a name stands in it once.
struct TorchScriptScan {
  /// Operators named in full: `torch.relu(…)` → aten::relu, `ops.torchvision.nms(…)` → torchvision::nms. Python
  /// operators, printed as `^Name(…)`, are listed as `^Name`.
  std::vector<ScriptUse> operators;
  /// Classes that a library must register, from sources (types, constructions) and from data.pkl and constants.pkl.
  std::vector<ScriptUse> classes;
  /// Names after a dot on anything else, `(x).name`, and in getattr(x, "name"): attributes and methods of modules, but
  /// also operators with an argument `self`, since LibTorch takes `(x).relu()` for aten::relu(x).
  std::vector<ScriptUse> members;
  std::size_t source_files = 0;
  std::size_t source_bytes = 0;
  bool has_setstate = false;  ///< a class with a `__setstate__`: the file's own code runs while it is loaded
};

/// Scans every `code/**.py` below the root of a TorchScript archive, and the names in its pickles. Sources are matched
/// without regard to case, as LibTorch finds them. Throws Error: kFileDamaged (a string or bracket that does not end,
/// bytes outside ASCII), kFileLimits (sizes, nesting: LibTorch's parser and compiler recurse), kFileHostile (`torch`,
/// `ops`, `__torch__` as values, computed getattr names, entries that differ only in case: no writer makes them, and
/// they would hide operators). With `classes`, what the sources declare is put there.
TorchScriptScan scan_torchscript(const ZipDirectory& zip, ScriptClasses* classes = nullptr);

/// The same for one source; `file` (`code/__torch__/m.py`) is used in messages and results, and names its classes.
TorchScriptScan scan_torchscript_source(std::string_view source, std::string_view file,
                                        ScriptClasses* classes = nullptr);

/// True for operators with effects outside the process or into its interpreter: files, processes, network, Python. The
/// name is qualified, without overload. Takes `^Name` (Python operators), all of `rpc`, `c10d`, `dist` namespaces.
bool is_unsafe_operator(std::string_view qualified_name);

/// True for registered classes whose objects reach other processes or hand code to a driver: c10d, dist_rpc, _nnapi.
bool is_unsafe_class(std::string_view class_name);

/// The unsafe uses of a scan: operators and classes by name, and members that name an unsafe operator which LibTorch
/// takes as a method (named `aten::…` here). aten::save and aten::from_file have no argument `self`, so a method `save`
/// of the model's own is none of them.
std::vector<ScriptUse> unsafe_uses(const TorchScriptScan& scan);

}  // namespace tl

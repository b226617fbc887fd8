#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tl {

class ZipDirectory;

/// One class or function of the sources of a TorchScript file, as a sequence of tokens in which names that say nothing
/// are taken away: local variables are numbered in order of appearance, `___torch_mangle_N` is left out, comments and
/// layout vanish. Equal sequences are the same program; different ones need not compute something else.
struct ScriptUnit {
  std::string name;                   ///< qualified and demangled: torch.nn.modules.conv.Conv2d
  std::vector<std::string> paths;     ///< modules of this class: layer1.0.conv1; empty for functions
  std::string file;                   ///< entry below the root: code/__torch__/net.py
  std::vector<std::uint64_t> tokens;  ///< hashes
  std::vector<std::uint32_t> lines;   ///< of the file, from 1, by token
  std::vector<std::string> text;      ///< of the lines from `first_line` on
  std::uint32_t first_line = 1;

  /// The line that a token stands in, without its indent.
  std::string line_of(std::size_t token) const;
};

/// The units of one source. `file` is `code/__torch__/…`; `names` receives the qualified names with mangling, by unit.
/// Throws Error as ScriptLexer does.
std::vector<ScriptUnit> script_units(std::string_view source, std::string_view file, std::vector<std::string>& names);

}  // namespace tl

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tl {

/// What a pickle refers to by name, found without executing anything.
struct PickleScan {
  /// Distinct `module.name`, in order of first appearance. A reference whose name the pickle computes in a way that
  /// cannot be followed without executing it reads `?`.
  std::vector<std::string> globals;
  int protocol = 0;       ///< of the proto opcode; 0 if there is none
  std::size_t bytes = 0;  ///< length of the pickle, up to and with its stop opcode
  bool has_extensions =
      false;  ///< it uses the extension registry (EXT1/2/4), whose meaning lies in the reading process
};

/// Walks the opcodes of one pickle (protocol ≤ 5). `where` is used in messages only. Time and memory are linear in the
/// pickle. Throws Error(kFileDamaged, kFileLimits) as PickleLexer does, and for a protocol above 5.
PickleScan scan_pickle(std::span<const std::byte> pickle, std::string_view where);

}  // namespace tl

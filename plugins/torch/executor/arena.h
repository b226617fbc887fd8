#pragma once

#include <c10/core/Allocator.h>

namespace tl::lt {

/// While one lives, LibTorch's CPU tensors of 256 KiB and more come from a process-wide arena of huge pages; smaller
/// ones from LibTorch's own allocator. Keeping every activation touches memory that a plain run would recycle while it
/// is warm: page faults are then the larger part of the cost, and huge pages take them 512 at a time. Freed blocks are
/// reused by later runs of the process; nothing is handed back to the system.
class ArenaScope {
 public:
  ArenaScope();
  ~ArenaScope();
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  c10::Allocator* before_;
};

}  // namespace tl::lt

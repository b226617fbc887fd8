#include "executor/arena.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

namespace tl::lt {
namespace {

constexpr std::size_t kHugePage = std::size_t{1} << 21;
constexpr std::size_t kSmallest = std::size_t{256}
                                  << 10;  // below, the copy of a payload costs less than its bookkeeping here
constexpr std::size_t kChunk = std::size_t{64} << 20;
constexpr std::size_t kAlign = 64;

/// First-fit over address-ordered free blocks with coalescing. Blocks are large and few, so a map is fast enough.
class Arena {
 public:
  void* take(std::size_t bytes) {
    bytes = (bytes + kAlign - 1) / kAlign * kAlign;
    const std::lock_guard lock(mutex_);
    auto block = find(bytes);
    if (block == free_.end()) {
      if (!grow(bytes)) return nullptr;
      block = find(bytes);
    }
    auto* address = block->first;
    const auto size = block->second;
    free_.erase(block);
    if (size > bytes) free_.emplace(address + bytes, size - bytes);
    taken_.emplace(address, bytes);
    return address;
  }

  /// False if the block is none of the arena's.
  bool give(void* pointer) {
    const std::lock_guard lock(mutex_);
    auto* address = static_cast<char*>(pointer);
    const auto taken = taken_.find(address);
    if (taken == taken_.end()) return false;
    auto size = taken->second;
    taken_.erase(taken);
    auto next = free_.lower_bound(address);
    if (next != free_.end() && next->first == address + size) {
      size += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + previous->second == address) {
        previous->second += size;
        return true;
      }
    }
    free_.emplace_hint(next, address, size);
    return true;
  }

 private:
  std::map<char*, std::size_t>::iterator find(std::size_t bytes) {
    return std::ranges::find_if(free_, [&](const auto& block) { return block.second >= bytes; });
  }

  bool grow(std::size_t bytes) {
    const auto size = (std::max(bytes, kChunk) + kHugePage - 1) / kHugePage * kHugePage;
    auto* raw =
        ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) return false;
    auto* begin = static_cast<char*>(raw);
    auto* aligned = begin + (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
    ::madvise(aligned, size, MADV_HUGEPAGE);  // where the system has none, the pages are small and all else holds
    free_.emplace(aligned, size);
    return true;
  }

  std::mutex mutex_;
  std::map<char*, std::size_t> free_;
  std::map<char*, std::size_t> taken_;
};

Arena& arena() {
  static auto* process_wide = new Arena();  // outlives every tensor, static ones too
  return *process_wide;
}

void free_large(void* pointer) { arena().give(pointer); }

/// For memory of either kind: LibTorch's raw interface frees by the allocator, not by the block.
void free_any(void* pointer) {
  if (pointer != nullptr && !arena().give(pointer)) c10::free_cpu(pointer);
}

class ArenaAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes >= kSmallest) {
      if (auto* pointer = arena().take(bytes); pointer != nullptr) {
        return {pointer, pointer, &free_large, c10::Device(c10::DeviceType::CPU)};
      }
    }
    auto* pointer = c10::alloc_cpu(bytes);
    return {pointer, pointer, &c10::free_cpu, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_any; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

ArenaAllocator& allocator() {
  static auto* process_wide = new ArenaAllocator();
  return *process_wide;
}

}  // namespace

ArenaScope::ArenaScope() : before_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(&allocator(), 255); }

ArenaScope::~ArenaScope() { c10::SetCPUAllocator(before_, 255); }

}  // namespace tl::lt

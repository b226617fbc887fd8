#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tl {

/// Open addressing from a small key to a row number, for steps that intern a million keys: no node, no allocation a
/// key. The slots hold eight bytes, so that probing stays in the cache. Key needs operator== and `std::uint64_t hash()
/// const`.
template <typename Key>
class RowMap {
 public:
  RowMap() : slots_(kStart) {}

  /// The row of the key; `row` under which it is now known if it was not.
  std::int32_t find_or_insert(const Key& key, std::int32_t row) {
    if ((entries_.size() + 1) * 2 > slots_.size()) grow();
    const auto hash = static_cast<std::uint32_t>(key.hash());
    auto at = hash & (slots_.size() - 1);
    while (slots_[at].entry != kFree) {
      const auto& entry = entries_[slots_[at].entry];
      if (slots_[at].hash == hash && entry.key == key) return entry.row;
      at = (at + 1) & (slots_.size() - 1);
    }
    slots_[at] = {hash, static_cast<std::uint32_t>(entries_.size())};
    entries_.push_back({key, row});
    return row;
  }

 private:
  static constexpr std::size_t kStart = 64;
  static constexpr std::uint32_t kFree = 0xffffffffu;
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t entry = kFree;
  };
  struct Entry {
    Key key;
    std::int32_t row;
  };

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const auto& slot : old) {
      if (slot.entry == kFree) continue;
      auto at = slot.hash & (slots_.size() - 1);
      while (slots_[at].entry != kFree) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::vector<Entry> entries_;
};

/// One round of the splitmix64 finaliser over `value` and what was mixed before.
constexpr std::uint64_t mix(std::uint64_t seed, std::uint64_t value) {
  auto bits = (seed ^ value) + 0x9e3779b97f4a7c15ULL;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
  return bits ^ (bits >> 31);
}

}  // namespace tl

#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/flat_hash_map.h>

#include <cstdint>
#include <unordered_set>

#include "trace/capture.h"

namespace tl::lt {

/// Storage → last writer. A read of a storage after a write W depends on W, whatever slot the tensor sits in.
class WriterTable {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct Found {
    std::uint32_t writer = kNone;  ///< kNone: the producer alone is the parent
    bool covers_producer = false;  ///< the writer hangs on the producer already, so it stands in its place
  };

  bool empty() const { return entries_.empty(); }

  /// What a read of `storage` through a value made by event `producer` (kNone: a parameter, an unrecorded value) has to
  /// add.
  Found find(const c10::StorageImpl* storage, std::uint32_t producer, const Capture& capture) const {
    const auto found = entries_.find(storage);
    if (found == entries_.end()) return {};
    const auto& entry = found->second;
    if (producer != kNone && entry.writer <= producer) return {};
    const bool covered =
        producer != kNone && ((capture.events[producer].flags & kOpInPlace) != 0 || entry.covered.contains(producer));
    return {entry.writer, covered};
  }

  /// Event `writer` wrote `storage` through a value made by event `producer`.
  void wrote(c10::StorageImpl* storage, std::uint32_t writer, std::uint32_t producer, const Capture& capture) {
    auto found = entries_.find(storage);
    if (found == entries_.end()) {
      // The weak reference keeps the address from being given to another storage; the bytes are freed as usual.
      found =
          entries_
              .emplace(storage, Entry{c10::weak_intrusive_ptr<c10::StorageImpl>(
                                          c10::intrusive_ptr<c10::StorageImpl>::unsafe_reclaim_from_nonowning(storage)),
                                      kNone,
                                      {}})
              .first;
    }
    auto& entry = found->second;
    entry.writer = writer;
    // The producer and everything it views are ancestors of the write from now on.
    for (auto at = producer; at != kNone && entry.covered.insert(at).second;) {
      const auto& event = capture.events[at];
      const bool passes = (event.flags & (kOpView | kOpInPlace)) != 0;
      at = passes && event.edge_begin < capture.edges.size() ? capture.edges[event.edge_begin].parent : kNone;
    }
  }

 private:
  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> address;
    std::uint32_t writer;
    std::unordered_set<std::uint32_t> covered;
  };
  ska::flat_hash_map<const c10::StorageImpl*, Entry> entries_;
};

}  // namespace tl::lt

#include "archive/pickle_tree.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "archive/entry_name.h"
#include "archive/limits.h"
#include "archive/torch_rebuild.h"
#include "core/error.h"

namespace tl {
namespace {

class TreeCheck {
 public:
  TreeCheck(const TorchRebuilder& rebuilder, const std::string& where) : rebuilder_(rebuilder), where_(where) {}

  /// Returns the containers of the tree.
  std::unordered_set<const void*> check(const PickleValue& root) {
    const Extent extent = visit(root, 0);
    if (extent.values > limits::kPickleValues) {
      limit(std::to_string(limits::kPickleValues) + " values, counted with repetition");
    }
    std::unordered_set<const void*> containers;
    for (const auto& [address, known] : extents_) containers.insert(address);
    return containers;
  }

 private:
  struct Extent {
    std::uint64_t values = 1;
    std::size_t depth = 0;
    bool open = false;  // being visited: meeting it again is a cycle
  };

  [[noreturn]] void limit(const std::string& what) const {
    throw Error(ErrorCode::kFileLimits, where_ + ": the pickle holds more than " + what);
  }

  Extent visit(const PickleValue& value, std::size_t depth) {
    if (const PickleSequence* sequence = value.sequence()) {
      return container(sequence, depth, [&](const auto& child) {
        for (const auto& item : sequence->items) child(item);
      });
    }
    if (const PickleDict* dict = value.dict()) {
      check_keys(*dict);
      return container(dict, depth, [&](const auto& child) {
        for (const auto& [key, item] : dict->items) {
          child(key);
          child(item);
        }
      });
    }
    if (const PickleObject* object = value.object()) {
      return container(object, depth, [&](const auto& child) {
        for (const auto& item : object->args) child(item);
        child(object->state);
      });
    }
    if (const auto* global = std::get_if<std::shared_ptr<const PickleGlobal>>(&value.data)) {
      rebuilder_.unsafe((*global)->name);
    }
    if (std::holds_alternative<std::shared_ptr<const PickleStorage>>(value.data)) {
      rebuilder_.damaged("a storage without a tensor");
    }
    return {};
  }

  template <typename ForEach>
  Extent container(const void* address, std::size_t depth, const ForEach& for_each) {
    if (depth >= limits::kPickleDepth) limit(std::to_string(limits::kPickleDepth) + " levels of nesting");
    const auto [known, fresh] = extents_.try_emplace(address, Extent{1, 0, true});
    if (!fresh) {
      if (known->second.open) rebuilder_.damaged("a container that holds itself");
      if (depth + known->second.depth > limits::kPickleDepth) {
        limit(std::to_string(limits::kPickleDepth) + " levels of nesting");
      }
      return known->second;
    }
    Extent extent;
    for_each([&](const PickleValue& child) {
      const Extent inner = visit(child, depth + 1);
      extent.values = std::min(extent.values + inner.values, limits::kPickleValues + 1);
      extent.depth = std::max(extent.depth, inner.depth + 1);
    });
    extents_[address] = extent;
    return extent;
  }

  void check_keys(const PickleDict& dict) {
    std::unordered_set<std::string_view> texts;
    std::unordered_set<std::int64_t> numbers;
    for (const auto& [key, value] : dict.items) {
      if (key.string()) key_bytes_ += key.string()->size();
      if (key_bytes_ > limits::kPickleBytes) limit(std::to_string(limits::kPickleBytes) + " bytes of keys");
      const bool fresh = key.string()    ? texts.insert(*key.string()).second
                         : key.integer() ? numbers.insert(*key.integer()).second
                                         : true;
      if (!fresh) {
        const std::string name = key.string() ? quoted_name(*key.string()) : std::to_string(*key.integer());
        throw Error(ErrorCode::kFileHostile, where_ + ": a dict of the pickle has the key " + name + " twice");
      }
    }
  }

  const TorchRebuilder& rebuilder_;
  const std::string& where_;
  std::unordered_map<const void*, Extent> extents_;
  std::uint64_t key_bytes_ = 0;  // hashing a memoised key again and again must not take quadratic time
};

}  // namespace

PickleContainers::~PickleContainers() {
  for (const auto& sequence : sequences_) {
    if (!kept_.contains(sequence.get())) sequence->items.clear();
  }
  for (const auto& dict : dicts_) {
    if (!kept_.contains(dict.get())) dict->items.clear();
  }
  for (const auto& object : objects_) {
    if (kept_.contains(object.get())) continue;
    object->args.clear();
    object->state = {};
  }
}

std::unordered_set<const void*> check_pickle_tree(const PickleValue& root, const TorchRebuilder& rebuilder,
                                                  const std::string& where) {
  return TreeCheck(rebuilder, where).check(root);
}

}  // namespace tl

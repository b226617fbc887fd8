#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "archive/pickle_value.h"

namespace tl {

class TorchRebuilder;

/// Containers under construction, which a hostile pickle can tie into cycles and towers. All but those that are found
/// to belong to a bounded tree are emptied one by one at the end, so that nothing leaks and no destructor recurses
/// deeply.
class PickleContainers {
 public:
  PickleContainers() = default;
  PickleContainers(const PickleContainers&) = delete;
  PickleContainers& operator=(const PickleContainers&) = delete;
  ~PickleContainers();

  std::shared_ptr<PickleSequence> sequence(bool is_tuple) {
    sequences_.push_back(std::make_shared<PickleSequence>());
    sequences_.back()->is_tuple = is_tuple;
    return sequences_.back();
  }
  std::shared_ptr<PickleDict> dict(bool ordered) {
    dicts_.push_back(std::make_shared<PickleDict>());
    dicts_.back()->ordered = ordered;
    return dicts_.back();
  }
  std::shared_ptr<PickleObject> object(std::string name) {
    objects_.push_back(std::make_shared<PickleObject>());
    objects_.back()->class_name = std::move(name);
    return objects_.back();
  }
  /// Leaves these containers as they are.
  void keep(std::unordered_set<const void*> containers) { kept_ = std::move(containers); }

 private:
  std::vector<std::shared_ptr<PickleSequence>> sequences_;
  std::vector<std::shared_ptr<PickleDict>> dicts_;
  std::vector<std::shared_ptr<PickleObject>> objects_;
  std::unordered_set<const void*> kept_;
};

/// Proves that a value is a tree of bounded depth and size (counted with repetition of shared parts), without cycles,
/// values that only the unpickler knows, or duplicate keys; returns the containers in it. `where` and the rebuilder's
/// errors name file and entry. Throws Error(kFileLimits, kFileHostile, kFileDamaged, kUnsafePickle).
std::unordered_set<const void*> check_pickle_tree(const PickleValue& root, const TorchRebuilder& rebuilder,
                                                  const std::string& where);

}  // namespace tl

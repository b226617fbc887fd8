#pragma once

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

namespace tl::lt {

/// Where the value in a slot came from: an Op, a parameter, a buffer, a container of such, a host value, or nothing
/// recorded.
class Prov {
 public:
  enum class Tag : std::uint32_t { kOp = 0, kParam = 1, kBuffer = 2, kContainer = 3, kFlow = 4, kNone = 7 };

  constexpr Prov() = default;
  static constexpr Prov op(std::uint32_t index) { return Prov(Tag::kOp, index); }
  static constexpr Prov param(std::uint32_t index) { return Prov(Tag::kParam, index); }
  static constexpr Prov buffer(std::uint32_t index) { return Prov(Tag::kBuffer, index); }
  static constexpr Prov container(std::uint32_t index) { return Prov(Tag::kContainer, index); }
  static constexpr Prov flow(std::uint32_t index) { return Prov(Tag::kFlow, index); }

  constexpr Tag tag() const { return static_cast<Tag>(bits_ >> kShift); }
  constexpr std::uint32_t index() const { return bits_ & kMask; }
  constexpr bool is(Tag tag_) const { return tag() == tag_; }
  constexpr bool none() const { return is(Tag::kNone); }
  friend constexpr bool operator==(Prov, Prov) = default;

  static constexpr std::uint32_t kMaxIndex = 0x1fffffff;

 private:
  static constexpr std::uint32_t kShift = 29;
  static constexpr std::uint32_t kMask = kMaxIndex;
  constexpr Prov(Tag tag_, std::uint32_t index) : bits_(static_cast<std::uint32_t>(tag_) << kShift | (index & kMask)) {}

  std::uint32_t bits_ = 0xffffffff;
};

/// Provenance of a container's elements, parallel to the container. Aliases of one container share one node, as they
/// share the container.
struct ContainerNode {
  std::vector<Prov> items;  ///< lists, tuples, futures
  using ByKey = std::unordered_map<c10::IValue, Prov, c10::detail::DictKeyHash, c10::detail::DictKeyEqualTo>;
  std::unique_ptr<ByKey> by_key;  ///< dicts
  bool of_state = false;          ///< an attribute of a module holds it
};

/// The nodes of one run.
class ContainerTree {
 public:
  Prov make(std::vector<Prov> items);
  Prov make_dict();
  ContainerNode& at(Prov prov) { return nodes_[prov.index()]; }
  bool full() const { return nodes_.size() >= Prov::kMaxIndex; }

  /// A node for `value` whose tensors get the provenance of the same tensor (by identity) in `known`; tensors that are
  /// not there get `fallback`. For containers that come out of opaque operations and attributes.
  using Known = std::unordered_map<const c10::TensorImpl*, Prov>;
  Prov make_by_identity(const c10::IValue& value, const Known& known, Prov fallback);
  /// Adds every tensor of `value` with its provenance to `known`.
  void collect(const c10::IValue& value, Prov prov, Known& known);
  /// Element `index` of a list, tuple or future; none where the node does not reach.
  Prov item(Prov prov, std::int64_t index);
  Prov item_by_key(Prov prov, const c10::IValue& key);

 private:
  std::deque<ContainerNode> nodes_;
};

/// True if a value of this type may hold a tensor that provenance has to follow. Module and script objects are followed
/// by attribute instead.
bool may_hold_tensor(const c10::Type& type);

}  // namespace tl::lt

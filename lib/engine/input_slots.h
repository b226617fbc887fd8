#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/given_inputs.h"

namespace tl {

/// What was given for one argument so far: a value, or parts under it by element number, field or key.
struct InputSlot {
  std::optional<InputValue> value;
  std::vector<std::pair<std::string, InputSlot>> parts;    ///< in order of appearance
  std::unordered_map<std::string, std::size_t> positions;  ///< of a key in parts

  bool empty() const { return !value && parts.empty(); }
};

/// Puts `value` at `path` (`0.mask`; empty: the argument itself) below an argument of type `type`. Appends to `misfits`
/// what cannot be: parts of a tensor, a place given twice. `name` is the path so far, for messages.
void place_input(InputSlot& slot, const TypeNode& type, const std::string& name, std::string_view path,
                 const InputValue& value, std::vector<std::string>& misfits);

/// The slot as one value of the form of `type`; nullopt, and the reasons in `misfits`, where parts are missing.
std::optional<InputValue> assemble_input(const InputSlot& slot, const TypeNode& type, const std::string& name,
                                         std::vector<std::string>& misfits);

/// True if the type, Optional aside, is a list, tuple or dict of the same kind as the value (lists and tuples are one
/// kind).
bool takes_container(const TypeNode& type, const InputValue& value);

/// A leaf of (args, kwargs): the argument and the path inside it.
struct InputLeaf {
  std::size_t argument = 0;
  std::string path;
  bool takes_tensor = false;  ///< a tensor, or a scalar that a 0-d tensor may give
  bool needs_tensor = false;  ///< a tensor, not Optional
};

/// The leaves in order, or why they cannot be counted.
struct LeafLayout {
  std::vector<InputLeaf> leaves;
  std::string reason;  ///< empty when `leaves` holds
};

/// Counts the leaves of all arguments for inputs that came numbered. Lengths of lists are inferred where only one
/// choice puts every number on a leaf that takes a tensor and leaves no tensor without one (`bound`: arguments given
/// otherwise).
LeafLayout leaf_layout(const Signature& signature, const std::vector<std::size_t>& numbers,
                       const std::vector<bool>& bound);

/// The numbers at the ends of the names (in.000, arg_1, 0), if all names have one, differ in it and share what precedes
/// it.
std::optional<std::vector<std::size_t>> common_numbers(const std::vector<const GivenInput*>& entries);

}  // namespace tl

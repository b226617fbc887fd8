#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/input_value.h"

namespace tl {

/// A value under the name it came with: a key of a file, the name before `=` or `:` on the command line. The name may
/// be a path into an argument (`batch.mask`, `states.0`); it is empty where the source has none (.npy).
struct GivenInput {
  std::string name;
  InputValue value;
};

/// What one file or one option brings.
struct GivenSet {
  std::string label;                   ///< for messages: x.safetensors, --random, --input
  std::vector<GivenInput> entries;     ///< by name
  std::vector<InputValue> positional;  ///< leading arguments in order (a `.pt` that holds a tuple or list)
  std::optional<InputValue> whole;     ///< the content as one value, where it is a list, tuple or dict
  bool names_are_meant = false;        ///< named by the user: a name that fits no argument is an error
};

/// `f32[2,3]`, `3`, `"text"`, `list of 2 (f32[4], …)`: a value for messages.
std::string describe(const InputValue& value);

}  // namespace tl

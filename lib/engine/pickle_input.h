#pragma once

#include <string>

#include "archive/pickle_value.h"
#include "engine/given_inputs.h"

namespace tl {

/// What a `torch.save` file gives: `(args, kwargs)` positional values and names, another tuple or a list positional
/// values, a dict with string keys names, anything else one value without a name. `shown_name` stands for the file in
/// sources. Throws Error(kInputMismatch) naming the place of a value that cannot be an input (sparse, quantised,
/// complex …).
GivenSet given_from_pickle(const PickleValue& value, const std::string& shown_name);

/// The same for a plain value (JSON).
GivenSet given_from_value(InputValue value);

}  // namespace tl

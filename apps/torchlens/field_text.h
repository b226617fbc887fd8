#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "select/fields.h"

namespace tl::cli {

/// The value of a field as JSON: null for none, exact integers, NaN and infinities as strings, lists as arrays.
nlohmann::ordered_json field_json(const Field& field, const FieldValue& value);

/// The same as one cell of text, not escaped: `-` for none, yes and no, lists joined by commas, and numbers as they are
/// or, if `for_people`, with their unit (1.5 KB, 12.3 us).
std::string field_text(const Field& field, const FieldValue& value, bool for_people);

}  // namespace tl::cli

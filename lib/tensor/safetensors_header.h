#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/safetensors.h"

namespace tl {

/// The key of a header that is no tensor.
inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";

/// What the JSON of a safetensors header says. Offsets are not yet held against the data.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

/// Parses the JSON text of a header. Duplicate keys, unknown keys, missing keys and wrong types are refused, with
/// Error codes as SafetensorsFile::open says.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::string_view shown_name);

/// The JSON text of a header, tensors in the given order, without padding. Names must be UTF-8; what is none in the
/// metadata becomes U+FFFD.
std::string format_safetensors_header(const SafetensorsHeader& header);

/// A tensor's name for messages: quoted, shortened.
std::string shown_tensor(std::string_view name);

}  // namespace tl

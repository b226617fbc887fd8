#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace tl {

/// The bytes of base64 text (RFC 4648, with padding, no line breaks); nullopt for anything else.
std::optional<std::vector<std::byte>> decode_base64(std::string_view text);

}  // namespace tl

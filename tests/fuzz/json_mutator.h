#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tl::fuzz {

/// A copy of a JSON text in which a few values changed: replaced by or swapped with other values of the document,
/// removed, repeated, made extreme; keys renamed to other keys. The result is JSON, so that what lies behind the parser
/// is reached. Texts that are no JSON come back unchanged.
std::string mutated_json(std::string_view text, std::uint32_t seed);

/// LLVMFuzzerCustomMutator for inputs that are JSON up to a first NUL: one in four mutations is libFuzzer's own.
std::size_t mutate_json_input(std::uint8_t* data, std::size_t size, std::size_t max_size, std::uint32_t seed);

}  // namespace tl::fuzz

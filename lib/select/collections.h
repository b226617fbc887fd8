#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "select/lookup.h"

namespace tl {

/// A decimal integer, the whole text, with or without a minus.
std::optional<std::int32_t> integer_from(std::string_view text);

/// `layers[…]` taken apart.
struct CollectionKey {
  std::string text;        ///< the key as given
  std::string collection;  ///< layers
  Found::Kind kind = Found::Kind::kLayer;
  std::string inner;                  ///< what stands in the brackets, without quotes
  std::optional<std::int32_t> index;  ///< if that is an integer
  bool is_slice = false;              ///< begin:end
  std::optional<std::int32_t> begin;
  std::optional<std::int32_t> end;
};

/// nullopt if the key is not of that form.
std::optional<CollectionKey> collection_key(std::string_view key);

/// Row `index` of a collection, negative ones from its end; kIndexOutOfRange beyond.
Result<Found> element(const Trace& trace, Found::Kind kind, std::int32_t index);

/// The rows of a slice (ops[2:5], as Python cuts) or of a filter: a field of truth of the collection, without is_ or
/// has_ (layers.recurrent, params.trainable, ops.saved). nullopt if the key has neither form or the collection no such
/// field.
std::optional<Result<std::vector<Found>>> slice_or_filter(const Trace& trace, std::string_view key);

/// The error about a key such as ops.savedd, a collection with a filter that it has not: kUnknownField, with the
/// filters it has. nullopt for other keys, and where a module has the name of the collection.
std::optional<Error> unknown_filter(const Trace& trace, std::string_view key);

}  // namespace tl

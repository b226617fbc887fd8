#pragma once

#include <cstddef>

namespace tl {

/// What the JSON of an untrusted file may hold. A DOM takes up to 110 bytes a token, so the bound on tokens is the
/// bound on memory: a text of 40 MB is 13 million empty lists, 1.5 GB once built.
struct JsonLimits {
  /// Bytes of the text. The graph of an exported program with 10,000 nodes takes 20 to 30 MB.
  std::size_t bytes = std::size_t{256} << 20;
  /// Lists and objects around a value. Whoever walks the document recurses once a level.
  std::size_t depth = 64;
  /// Keys, scalars, lists and objects together; at most 440 MB of document.
  std::size_t tokens = 4'000'000;
  /// Bytes of one string or key as written, without its quotes.
  std::size_t string_bytes = std::size_t{1} << 20;
  /// Refuse an object with a key that stands in it twice: readers differ in which of the two values counts.
  bool unique_keys = true;
  /// Accept the words NaN, Infinity and -Infinity as numbers, as Python's json module writes them.
  bool non_finite_words = false;
};

}  // namespace tl

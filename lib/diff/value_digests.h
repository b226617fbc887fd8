#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diff/side.h"

namespace tl {

/// Digests of the values of a side, each made when it is first asked for.
class ValueDigests {
 public:
  /// The side must outlive it. Without `values` nothing is read, and nothing known of any value.
  ValueDigests(const Side& side, bool values) : side_(side), values_(values), digests_(side.size()) {}

  bool reads_values() const { return values_; }

  /// Equal for two rows whose values are equal bit by bit, whatever their sizes; of what was not kept, for equal
  /// statistics. Empty where nothing is known of a value.
  const std::string& of(std::size_t row) { return digest(row).hex; }

  /// The same; empty too where equality says nothing of where a value comes from: not kept whole, of few elements, or
  /// one number throughout.
  const std::string& telling(std::size_t row) { return digest(row).is_telling ? digest(row).hex : none_; }

 private:
  struct Digest {
    std::string hex;
    bool is_telling = false;
  };
  const Digest& digest(std::size_t row);

  const Side& side_;
  const bool values_;
  std::vector<std::optional<Digest>> digests_;
  const std::string none_;
};

}  // namespace tl

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tl {

/// Interned strings: each distinct text has one int32 code, given in order of first use. -1 is "none" and reads as "".
class StringPool {
 public:
  StringPool() = default;
  StringPool(const StringPool& other);
  StringPool& operator=(const StringPool& other);
  StringPool(StringPool&&) noexcept = default;
  StringPool& operator=(StringPool&&) noexcept = default;

  /// A pool that begins with the texts of `base`, which is shared, not copied.
  static StringPool extending(std::shared_ptr<const StringPool> base);

  std::int32_t intern(std::string_view text);
  /// The code of a text that is in the pool; -1 if it is not.
  std::int32_t find(std::string_view text) const;
  std::string_view operator[](std::int32_t code) const;
  std::size_t size() const { return base_size_ + views_.size(); }

  /// Appends a text under the next code without looking it up; for readers of a stored pool, which keep `backing`
  /// alive.
  void append_view(std::string_view text);
  void keep_alive(std::shared_ptr<const void> backing) { backing_ = std::move(backing); }

 private:
  std::shared_ptr<const StringPool> base_;  ///< codes below base_size_
  std::size_t base_size_ = 0;
  std::vector<std::string_view> views_;
  std::vector<std::unique_ptr<std::string>> owned_;
  mutable std::unordered_map<std::string_view, std::int32_t> codes_;  ///< filled up to indexed_ on demand
  mutable std::size_t indexed_ = 0;
  std::shared_ptr<const void> backing_;
};

/// Interned lists of int64 (sizes, strides): each distinct list has one int32 code.
class ShapePool {
 public:
  std::int32_t intern(std::span<const std::int64_t> dims);
  std::span<const std::int64_t> operator[](std::int32_t code) const;
  std::size_t size() const { return begin_.size() - 1; }

  /// The two columns it is stored as: begin (size() + 1 rows) and dims.
  std::span<const std::int32_t> begin_column() const { return begin_; }
  std::span<const std::int64_t> dims_column() const { return dims_; }
  /// Keeps the first `size` lists.
  void truncate(std::size_t size);
  /// Rebuilds a pool from stored columns that the reader has checked (monotone, in range).
  void restore(std::span<const std::int32_t> begin, std::span<const std::int64_t> dims);

 private:
  std::vector<std::int32_t> begin_ = {0};
  std::vector<std::int64_t> dims_;
  std::vector<std::int32_t> table_;  ///< open addressing over codes, -1 empty; a power of two, at most half full
  void insert(std::int32_t code);
};

}  // namespace tl

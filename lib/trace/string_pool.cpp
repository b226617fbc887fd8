#include "trace/string_pool.h"

#include <algorithm>
#include <utility>

namespace tl {

StringPool::StringPool(const StringPool& other) { *this = other; }

StringPool& StringPool::operator=(const StringPool& other) {
  if (this == &other) return *this;
  views_.clear();
  owned_.clear();
  codes_.clear();
  indexed_ = 0;
  backing_.reset();
  base_ = other.base_;
  base_size_ = other.base_size_;
  for (const auto view : other.views_) {
    owned_.push_back(std::make_unique<std::string>(view));
    views_.push_back(*owned_.back());
  }
  return *this;
}

StringPool StringPool::extending(std::shared_ptr<const StringPool> base) {
  StringPool pool;
  pool.base_size_ = base->size();
  pool.base_ = std::move(base);
  return pool;
}

std::int32_t StringPool::intern(std::string_view text) {
  if (const auto code = find(text); code >= 0) return code;
  owned_.push_back(std::make_unique<std::string>(text));
  views_.push_back(*owned_.back());
  const auto code = static_cast<std::int32_t>(size() - 1);
  codes_.emplace(views_.back(), code);
  indexed_ = views_.size();
  return code;
}

std::int32_t StringPool::find(std::string_view text) const {
  if (base_) {
    if (const auto code = base_->find(text); code >= 0) return code;
  }
  for (; indexed_ < views_.size(); ++indexed_) {
    codes_.emplace(views_[indexed_], static_cast<std::int32_t>(base_size_ + indexed_));
  }
  const auto found = codes_.find(text);
  return found == codes_.end() ? -1 : found->second;
}

std::string_view StringPool::operator[](std::int32_t code) const {
  if (code < 0 || static_cast<std::size_t>(code) >= size()) return {};
  const auto row = static_cast<std::size_t>(code);
  return row < base_size_ ? (*base_)[code] : views_[row - base_size_];
}

void StringPool::append_view(std::string_view text) { views_.push_back(text); }

namespace {

std::size_t hash_of(std::span<const std::int64_t> dims) {
  // FNV-1a over whole words: short lists, few distinct values.
  std::size_t hash = 1469598103934665603ULL;
  for (const auto dim : dims) hash = (hash ^ static_cast<std::size_t>(dim)) * 1099511628211ULL;
  return hash ^ hash >> 29;  // the table takes the low bits
}

}  // namespace

std::int32_t ShapePool::intern(std::span<const std::int64_t> dims) {
  const auto mask = table_.size() - 1;
  for (auto at = hash_of(dims) & mask; !table_.empty() && table_[at] >= 0; at = (at + 1) & mask) {
    if (std::ranges::equal((*this)[table_[at]], dims)) return table_[at];
  }
  const auto code = static_cast<std::int32_t>(size());
  dims_.insert(dims_.end(), dims.begin(), dims.end());
  begin_.push_back(static_cast<std::int32_t>(dims_.size()));
  insert(code);
  return code;
}

void ShapePool::insert(std::int32_t code) {
  if (table_.size() < 2 * size()) {
    table_.assign(std::max<std::size_t>(64, table_.size() * 2), -1);
    for (std::int32_t known = 0; known < code; ++known) insert(known);
  }
  const auto mask = table_.size() - 1;
  auto at = hash_of((*this)[code]) & mask;
  while (table_[at] >= 0) at = (at + 1) & mask;
  table_[at] = code;
}

std::span<const std::int64_t> ShapePool::operator[](std::int32_t code) const {
  if (code < 0 || static_cast<std::size_t>(code) >= size()) return {};
  const auto row = static_cast<std::size_t>(code);
  const auto begin = static_cast<std::size_t>(begin_[row]);
  return std::span(dims_).subspan(begin, static_cast<std::size_t>(begin_[row + 1]) - begin);
}

void ShapePool::truncate(std::size_t size) {
  if (size >= this->size()) return;
  begin_.resize(size + 1);
  dims_.resize(static_cast<std::size_t>(begin_.back()));
  table_.clear();
  for (std::size_t row = 0; row < size; ++row) insert(static_cast<std::int32_t>(row));
}

void ShapePool::restore(std::span<const std::int32_t> begin, std::span<const std::int64_t> dims) {
  begin_.assign(begin.begin(), begin.end());
  if (begin_.empty()) begin_.push_back(0);
  dims_.assign(dims.begin(), dims.end());
  table_.clear();
  for (std::size_t row = 0; row < size(); ++row) insert(static_cast<std::int32_t>(row));
}

}  // namespace tl

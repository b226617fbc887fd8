#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tl {

/// One column: a vector while a trace is built, or a view into a mapped file once it is read back.
/// Element access is a plain load in both cases.
template <typename T>
class Column {
 public:
  Column() = default;
  Column(const Column& other) : own_(other.begin(), other.end()) { refresh(); }
  Column(Column&& other) noexcept
      : own_(std::move(other.own_)), data_(other.data_), size_(other.size_), backing_(std::move(other.backing_)) {
    other.own_.clear();
    other.refresh();
  }
  Column& operator=(Column other) noexcept {
    own_.swap(other.own_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    backing_.swap(other.backing_);
    return *this;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](std::size_t row) const { return data_[row]; }
  const T& back() const { return data_[size_ - 1]; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  std::span<const T> view() const { return {data_, size_}; }

  /// Writable access; only for columns that own their rows.
  std::vector<T>& rows() {
    own_if_mapped();
    return own_;
  }
  T& mut(std::size_t row) { return own_[row]; }
  void push_back(T value) {
    own_.push_back(value);
    refresh();
  }
  void resize(std::size_t rows, T value = T{}) {
    own_.resize(rows, value);
    refresh();
  }
  void assign(std::vector<T> rows) {
    backing_.reset();
    own_ = std::move(rows);
    refresh();
  }
  void reserve(std::size_t rows) {
    own_.reserve(rows);
    refresh();
  }
  /// Call after changing rows() in size.
  void refresh() {
    data_ = own_.data();
    size_ = own_.size();
  }

  /// Views rows that `backing` keeps alive.
  void map(std::span<const T> rows, std::shared_ptr<const void> backing) {
    own_.clear();
    own_.shrink_to_fit();
    data_ = rows.data();
    size_ = rows.size();
    backing_ = std::move(backing);
  }

 private:
  void own_if_mapped() {
    if (!backing_) return;
    own_.assign(data_, data_ + size_);
    backing_.reset();
    refresh();
  }

  std::vector<T> own_;
  const T* data_ = nullptr;
  std::size_t size_ = 0;
  std::shared_ptr<const void> backing_;
};

}  // namespace tl

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tl {

/// Notes of one reason for a Dump: the first few in full, the rest as a number.
class ForeignNotes {
 public:
  /// `rest` finishes the last line: "3 more entries were left out".
  explicit ForeignNotes(std::string rest) : rest_(std::move(rest)) {}

  void add(std::string note) {
    constexpr std::size_t kShown = 5;
    if (++count_ <= kShown) notes_.push_back(std::move(note));
  }
  std::size_t count() const { return count_; }
  void append_to(std::vector<std::string>& notes) const {
    notes.insert(notes.end(), notes_.begin(), notes_.end());
    if (count_ > notes_.size()) notes.push_back(std::to_string(count_ - notes_.size()) + " more " + rest_);
  }

 private:
  std::string rest_;
  std::vector<std::string> notes_;
  std::size_t count_ = 0;
};

}  // namespace tl

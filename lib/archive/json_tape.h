#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_limits.h"

namespace tl {

class JsonRef;
struct JsonMember;

/// The values of a JSON text in the order of the text, 24 bytes each, for programs whose graphs are tens of megabytes:
/// no tree is built, strings are views into the text (decoded copies where they hold escapes), members keep their
/// order.
class JsonTape {
 public:
  enum class Kind : std::uint8_t { kNull, kFalse, kTrue, kInteger, kBigInteger, kReal, kString, kArray, kObject };

  /// Borrows `text`; copies `shown_name`, which stands at the head of messages. Throws Error: kFileDamaged (no JSON, a
  /// number outside the range of a double), kFileLimits, kFileHostile (a key twice in one object).
  JsonTape(std::string_view text, std::string shown_name, const JsonLimits& limits);
  JsonTape(const JsonTape&) = delete;
  JsonTape& operator=(const JsonTape&) = delete;

  JsonRef root() const;
  const std::string& shown_name() const { return shown_name_; }

 private:
  friend class JsonRef;

  struct Node {
    union {
      std::int64_t integer;
      double real;
      const char* data;  ///< strings
      struct {
        std::uint32_t next;  ///< index of the first node after the container
        std::uint32_t end;   ///< offset in the text behind its closing bracket
      } span;
    };
    std::uint32_t size;    ///< bytes of a string; items of an array; members of an object
    std::uint32_t offset;  ///< in the text
    Kind kind;
  };

  void build(const JsonLimits& limits);
  void refuse_repeated_keys(std::size_t object);
  std::uint32_t next_of(std::uint32_t index) const {
    const Node& node = nodes_[index];
    return node.kind >= Kind::kArray ? node.span.next : index + 1;
  }
  std::string_view string_at(std::uint32_t index) const { return {nodes_[index].data, nodes_[index].size}; }

  std::string_view text_;
  std::string shown_name_;
  std::vector<Node> nodes_;  // a member is two nodes, its key first
  std::deque<std::string> decoded_;
  std::vector<std::string_view> keys_;  // scratch
};

/// One value of a tape, which must outlive it; or none (where a member is absent).
class JsonRef {
 public:
  JsonRef() = default;

  explicit operator bool() const { return tape_ != nullptr; }
  JsonTape::Kind kind() const { return node().kind; }
  bool is_null() const { return kind() == JsonTape::Kind::kNull; }
  bool is_bool() const { return kind() == JsonTape::Kind::kTrue || kind() == JsonTape::Kind::kFalse; }
  bool is_string() const { return kind() == JsonTape::Kind::kString; }
  bool is_array() const { return kind() == JsonTape::Kind::kArray; }
  bool is_object() const { return kind() == JsonTape::Kind::kObject; }
  bool is_integer() const { return kind() == JsonTape::Kind::kInteger; }
  bool is_real() const { return kind() == JsonTape::Kind::kReal; }

  /// The value; the caller has asked for the kind.
  bool boolean() const { return kind() == JsonTape::Kind::kTrue; }
  std::int64_t integer() const { return node().integer; }
  double real() const { return node().real; }
  std::string_view string() const { return tape_->string_at(index_); }
  /// Items of an array, members of an object.
  std::size_t size() const { return node().size; }
  /// A container as written.
  std::string_view text() const { return tape_->text_.substr(node().offset, node().span.end - node().offset); }
  /// Bytes from the start of the text.
  std::size_t offset() const { return node().offset; }

  /// A member of an object; none if there is no such key. Takes a step a member.
  JsonRef find(std::string_view key) const;

  class Iterator {
   public:
    using value_type = JsonRef;
    using difference_type = std::ptrdiff_t;
    Iterator(const JsonTape* tape, std::uint32_t index) : tape_(tape), index_(index) {}
    JsonRef operator*() const { return JsonRef(tape_, index_); }
    Iterator& operator++() {
      index_ = tape_->next_of(index_);
      return *this;
    }
    bool operator==(const Iterator& other) const { return index_ == other.index_; }

   private:
    const JsonTape* tape_;
    std::uint32_t index_;
  };
  class MemberIterator {
   public:
    MemberIterator(const JsonTape* tape, std::uint32_t index) : tape_(tape), index_(index) {}
    JsonMember operator*() const;
    MemberIterator& operator++() {
      index_ = tape_->next_of(index_ + 1);
      return *this;
    }
    bool operator==(const MemberIterator& other) const { return index_ == other.index_; }

   private:
    const JsonTape* tape_;
    std::uint32_t index_;
  };
  template <typename It>
  struct Range {
    It first;
    It last;
    It begin() const { return first; }
    It end() const { return last; }
  };
  /// The items of an array.
  Range<Iterator> items() const { return {{tape_, index_ + 1}, {tape_, tape_->next_of(index_)}}; }
  /// The members of an object, in the order of the text.
  Range<MemberIterator> members() const { return {{tape_, index_ + 1}, {tape_, tape_->next_of(index_)}}; }

 private:
  friend class JsonTape;
  JsonRef(const JsonTape* tape, std::uint32_t index) : tape_(tape), index_(index) {}
  const JsonTape::Node& node() const { return tape_->nodes_[index_]; }

  const JsonTape* tape_ = nullptr;
  std::uint32_t index_ = 0;
};

struct JsonMember {
  std::string_view key;
  JsonRef value;
};

/// The kind of a value in words: null, a bool, a string …
std::string_view kind_name(JsonRef value);

}  // namespace tl

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tl::text_form {

/// A word that needs no quotes: letters, digits and _ . : / # - $ *
bool is_bare(std::string_view word);

/// Appends a word, quoted when it is not bare, is empty or would read as something else (`-`, `end`, a row number
/// `#n`).
void append_word(std::string& out, std::string_view word);
/// Appends a text in quotes, with \\ \" \n \r \t \xNN for what may not stand in a line.
void append_quoted(std::string& out, std::string_view text);
void append_integer(std::string& out, std::int64_t value);
/// Shortest decimal that gives the same double back; `bits:0x…` for NaN.
void append_double(std::string& out, double value);
void append_float(std::string& out, float value);

/// A word as read; `quoted` ones are never keywords or row numbers.
struct Word {
  std::string text;
  bool quoted = false;
  bool is(std::string_view bare) const { return !quoted && text == bare; }
};

/// Reads one line from left to right. Every failure throws Error(kTextSyntax) with the line number and the column.
class Cursor {
 public:
  Cursor(std::string_view line, std::size_t line_number) : line_(line), line_number_(line_number) {}

  bool at_end() const { return at_ == line_.size(); }
  char peek() const { return at_end() ? '\0' : line_[at_]; }
  void skip_spaces();
  /// True, and past it, if the next character is `c`.
  bool accept(char c);
  void expect(char c);
  Word word();
  std::int64_t integer();
  double number();
  /// The name before `=`; past the `=`.
  std::string_view field_name();
  /// True if a field name and `=` come next.
  bool at_field() const;
  std::size_t line_number() const { return line_number_; }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  char escape();

  std::string_view line_;
  std::size_t at_ = 0;
  std::size_t line_number_;
};

/// The row number of a word `#n`; false if it is none.
bool parse_row_number(const Word& word, std::int64_t& row);

}  // namespace tl::text_form

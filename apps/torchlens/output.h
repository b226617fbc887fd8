#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace tl::cli {

/// How a piece of text is set apart where colour is on.
enum class Style : std::uint8_t { kPlain, kBold, kError, kHint };

/// The one way text leaves the program: every line is escaped for terminals, so names from files may stand in it, and
/// none of them can begin a line of its own.
class Output {
 public:
  Output(std::FILE* file, bool color) : file_(file), color_(color) {}

  /// Writes one line; a newline in it is escaped like other controls.
  void line(std::string_view text = {});
  /// Writes a text of several lines, which must know what may begin one; a newline is added where there is none.
  void lines(std::string_view text);
  /// A line whose beginning is styled.
  void line(Style style, std::string_view head, std::string_view rest);
  /// A message that may have several lines; those after the first are set in, so that none looks like ours.
  void message(Style style, std::string_view head, std::string_view text);
  /// Text that is machine-readable and escaped by its own rules (JSON), or made of our own words only.
  void raw(std::string_view text);
  /// Overwrites the current line of a terminal; an empty text clears it. Other text clears it first.
  void status(std::string_view text);

  /// Throws Error(kOutputFailed) when something could not be written; a closed pipe ends the process with 141.
  void flush();

  bool is_terminal() const;
  /// Columns that a table may take: those of the terminal, 80 where the stream is none.
  std::size_t width() const;

 private:
  void clear_status();

  std::FILE* file_;
  bool color_;
  int failure_ = 0;  ///< errno of the first write that failed; 0 while none has
  bool has_status_ = false;
};

/// What --color, NO_COLOR and CLICOLOR_FORCE say about a stream. `choice` is auto, always or never.
bool wants_color(std::string_view choice, std::FILE* file);

}  // namespace tl::cli

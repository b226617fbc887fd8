#include "output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "core/escape.h"

namespace tl::cli {
namespace {

std::string_view code_of(Style style) {
  switch (style) {
    case Style::kBold:
      return "\x1b[1m";
    case Style::kError:
      return "\x1b[1;31m";
    case Style::kHint:
      return "\x1b[36m";
    default:
      return "";
  }
}

}  // namespace

void Output::raw(std::string_view text) {
  clear_status();
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() && failure_ == 0) failure_ = errno;
}

void Output::line(std::string_view text) { raw(escape_for_terminal(text) + "\n"); }

void Output::lines(std::string_view text) { raw(text.empty() ? "\n" : escape_lines_for_terminal(text)); }

void Output::message(Style style, std::string_view head, std::string_view text) {
  const auto end = text.find('\n');
  line(style, head, text.substr(0, end));
  while (!text.empty() && text.find('\n') != std::string_view::npos) {
    text.remove_prefix(text.find('\n') + 1);
    line("  " + std::string(text.substr(0, text.find('\n'))));
  }
}

void Output::line(Style style, std::string_view head, std::string_view rest) {
  if (!color_) {
    line(std::string(head) + std::string(rest));
    return;
  }
  raw(code_of(style));
  raw(escape_for_terminal(head));
  raw("\x1b[0m");
  line(rest);
}

void Output::status(std::string_view text) {
  clear_status();
  if (text.empty()) return;
  const auto escaped = escape_for_terminal(text);
  std::fwrite(escaped.data(), 1, escaped.size(), file_);
  std::fflush(file_);
  has_status_ = true;
}

void Output::clear_status() {
  if (!has_status_) return;
  has_status_ = false;
  std::fputs("\r\x1b[K", file_);
}

void Output::flush() {
  clear_status();
  const bool failed = std::fflush(file_) != 0 || std::ferror(file_) != 0;
  if (!failed) return;
  const int reason = failure_ != 0 ? failure_ : errno;
  std::clearerr(file_);
  failure_ = 0;
  if (reason == EPIPE) _exit(static_cast<int>(ExitCode::kClosedPipe));
  throw Error(ErrorCode::kOutputFailed, std::string("the output could not be written: ") + std::strerror(reason));
}

bool Output::is_terminal() const { return isatty(fileno(file_)) == 1; }

std::size_t Output::width() const {
  constexpr std::size_t kDefault = 80;
  constexpr std::size_t kNarrowest = 60;
  winsize size{};
  if (!is_terminal() || ioctl(fileno(file_), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefault;
  return std::max<std::size_t>(size.ws_col, kNarrowest);
}

bool wants_color(std::string_view choice, std::FILE* file) {
  if (choice != "auto") return choice == "always";
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* force = std::getenv("CLICOLOR_FORCE");
  if (force != nullptr && *force != '\0' && std::strcmp(force, "0") != 0) return true;
  const char* term = std::getenv("TERM");
  return isatty(fileno(file)) == 1 && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

}  // namespace tl::cli

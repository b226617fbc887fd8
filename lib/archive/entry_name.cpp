#include "archive/entry_name.h"

#include <cstddef>

#include "core/text.h"

namespace tl {
namespace {

constexpr std::size_t kShownColumns = 120;

bool has_unsafe_part(std::string_view name) {
  while (!name.empty()) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return true;
    if (slash == std::string_view::npos) return false;
    name.remove_prefix(slash + 1);
  }
  return false;
}

}  // namespace

std::string quoted_name(std::string_view name) {
  // A prefix is enough for the escape, whose input may be megabytes of a hostile pickle.
  const std::string_view head = name.substr(0, 4 * kShownColumns);
  return '"' + elide(escape_for_terminal(head), kShownColumns) + '"';
}

std::string_view unsafe_name_reason(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.front() == '/') return "is an absolute path";
  if (name.size() >= 2 && name[1] == ':') return "has a drive letter";
  for (const char c : name) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code == 0x7f) return "holds a control character";
    if (c == '\\') return "holds a backslash";
  }
  if (has_unsafe_part(name)) return "has an empty, `.` or `..` part";
  return {};
}

}  // namespace tl

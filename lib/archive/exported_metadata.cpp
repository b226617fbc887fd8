#include "archive/exported_metadata.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

namespace tl {
namespace {

constexpr std::string_view kSelfPrefix = "L__self__";
constexpr std::string_view kExportRoot = "_export_root";
constexpr std::string_view kNoStack = "_empty_nn_module_stack_from_metadata_hook";

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// The k of a trailing `@k`, which is cut off; nullopt if there is none.
std::optional<int> take_call(std::string_view& key) {
  const std::size_t at = key.rfind('@');
  if (at == std::string_view::npos || !is_digits(key.substr(at + 1))) return std::nullopt;
  int call = 0;
  if (std::from_chars(key.data() + at + 1, key.data() + key.size(), call).ec != std::errc()) return std::nullopt;
  key = key.substr(0, at);
  return call;
}

/// True if an entry of a module stack can begin here: a key, then a comma.
bool begins_entry(std::string_view text) {
  if (text.starts_with(kSelfPrefix) || text.starts_with("L['self']") || text.starts_with(kNoStack)) return true;
  // An id is the address of an object; the bound keeps a long text of semicolons from being searched over and over.
  constexpr std::size_t kLeastIdDigits = 5;
  constexpr std::size_t kLongestKey = 48;
  std::string_view key = text.substr(0, kLongestKey);
  key = key.substr(0, key.find(','));
  take_call(key);
  return key.size() >= kLeastIdDigits && is_digits(key);
}

/// The entries of a stack: cut at semicolons that a new key follows; at all where its keys are of no known form.
std::vector<std::string_view> entries_of(std::string_view text) {
  std::vector<std::string_view> entries;
  const bool known = begins_entry(text);
  std::size_t begin = 0;
  for (std::size_t at = text.find(';'); at != std::string_view::npos; at = text.find(';', at + 1)) {
    if (known && !begins_entry(text.substr(at + 1))) continue;
    entries.push_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
  entries.push_back(text.substr(begin));
  return entries;
}

/// The first comma outside of brackets that open before it; npos if there is none.
std::size_t first_comma(std::string_view text) {
  std::int64_t depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    if (c == ',' && depth <= 0) return at;
  }
  return std::string_view::npos;
}

/// The last comma outside of brackets that close behind it; npos if there is none.
std::size_t last_comma(std::string_view text) {
  std::int64_t depth = 0;
  for (std::size_t at = text.size(); at-- > 0;) {
    const char c = text[at];
    if (c == ']' || c == ')') ++depth;
    if (c == '[' || c == '(') --depth;
    if (c == ',' && depth <= 0) return at;
  }
  return std::string_view::npos;
}

/// True if `key` is what a non-strict export makes of `path`: `L__self__` and the path, perhaps `@k`.
bool key_has_path(std::string_view key, std::string_view path) {
  constexpr std::size_t kLongestCall = 12;  // lengths decide first: nearly all commas are told without a look
  const std::size_t least = kSelfPrefix.size() + path.size();
  if (key.size() < least || key.size() > least + kLongestCall || !key.starts_with(kSelfPrefix)) return false;
  key.remove_prefix(kSelfPrefix.size());
  if (!key.starts_with(path)) return false;
  key.remove_prefix(path.size());
  return key.empty() || (key.front() == '@' && is_digits(key.substr(1)));
}

ExportedModuleFrame frame_of(std::string_view entry) {
  ExportedModuleFrame frame;
  const std::size_t last = last_comma(entry);
  if (last == std::string_view::npos) {
    frame.key = entry;
    return frame;
  }
  // A class never holds a comma outside of brackets; key and path may.
  frame.class_name = entry.substr(last + 1);
  const std::string_view rest = entry.substr(0, last);
  std::size_t split = first_comma(rest);
  if (split == std::string_view::npos) split = std::min(rest.find(','), rest.size());
  for (std::size_t at = rest.find(','); at != std::string_view::npos; at = rest.find(',', at + 1)) {
    if (!key_has_path(rest.substr(0, at), rest.substr(at + 1))) continue;
    split = at;
    break;
  }
  std::string_view key = rest.substr(0, split);
  std::string_view path = split < rest.size() ? rest.substr(split + 1) : std::string_view();
  frame.key = key;
  if (key_has_path(key, path)) {
    key.remove_prefix(kSelfPrefix.size() + path.size());
    frame.call = take_call(key).value_or(0);
    frame.path = path;
    return frame;
  }
  frame.call = take_call(key).value_or(0);
  frame.path = module_address(path);
  return frame;
}

/// A string as Python's repr writes it, at the head of `text`, which moves behind it; nullopt if there is none.
std::optional<std::string> take_quoted(std::string_view& text) {
  if (text.empty() || (text[0] != '\'' && text[0] != '"')) return std::nullopt;
  std::string name;
  for (std::size_t at = 1; at < text.size(); ++at) {
    if (text[at] == text[0]) {
      text.remove_prefix(at + 1);
      return name;
    }
    constexpr std::string_view kEscaped = "\\'\"ntr";
    constexpr std::string_view kMeant = "\\'\"\n\t\r";
    const std::size_t escape = text[at] == '\\' && at + 1 < text.size() ? kEscaped.find(text[at + 1]) : kEscaped.npos;
    if (escape != kEscaped.npos) ++at;
    name += escape != kEscaped.npos ? kMeant[escape] : text[at];
  }
  return std::nullopt;
}

/// The name in `_modules['name']` at the head of `text`, which moves behind it.
std::optional<std::string> take_item(std::string_view& text) {
  constexpr std::string_view kModules = "_modules[";
  if (!text.starts_with(kModules)) return std::nullopt;
  std::string_view rest = text.substr(kModules.size());
  auto name = take_quoted(rest);
  if (!name || !rest.starts_with(']')) return std::nullopt;
  text = rest.substr(1);
  return name;
}

/// Names joined by dots, of which those that are no identifiers may stand as `_modules['name']`.
std::string dotted_address(std::string_view path) {
  std::string address;
  while (!path.empty()) {
    if (const auto name = take_item(path)) address += *name;
    const std::size_t dot = path.find('.');
    const std::size_t end = dot == std::string_view::npos ? path.size() : dot + 1;
    address += path.substr(0, end);
    path.remove_prefix(end);
  }
  return address;
}

/// A source expression behind `L['self']`: `.name`, `[0]`, `['name']`, `._modules['name']` in a row.
std::string expression_address(std::string_view path) {
  std::string address;
  const auto append = [&](std::string_view name) { (address += address.empty() ? "" : ".") += name; };
  while (!path.empty()) {
    if (path.front() == '.') path.remove_prefix(1);
    if (const auto item = take_item(path)) {
      append(*item);
    } else if (path.starts_with('[')) {
      std::string_view inside = path.substr(1);
      if (const auto name = take_quoted(inside)) {
        append(*name);
      } else {
        const std::size_t end = std::min(inside.find(']'), inside.size());
        append(inside.substr(0, end));
        inside.remove_prefix(end);
      }
      path = inside.substr(inside.starts_with(']') ? 1 : 0);
    } else {
      const std::size_t end = std::min(path.find_first_of(".["), path.size());
      if (end > 0) append(path.substr(0, end));
      path.remove_prefix(end);
    }
  }
  return address;
}

}  // namespace

std::string module_address(std::string_view path) {
  constexpr std::string_view kSelf = "L['self']";
  if (path == kExportRoot) return {};
  if (path.starts_with(kExportRoot) && path[kExportRoot.size()] == '.') path.remove_prefix(kExportRoot.size() + 1);
  if (!path.starts_with(kSelf)) return dotted_address(path);
  path.remove_prefix(kSelf.size());
  take_call(path);
  return expression_address(path);
}

ExportedModuleStack parse_module_stack(std::string_view text) {
  ExportedModuleStack stack;
  for (const std::string_view entry : entries_of(text)) {
    if (entry.empty() || entry.starts_with(kNoStack)) continue;
    stack.push_back(frame_of(entry));
  }
  return stack;
}

namespace {

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::string_view stripped(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
}

/// `File "PATH", line N, in FUNCTION`
std::optional<ExportedSourceFrame> frame_line(std::string_view line) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  line = stripped(line);
  if (!line.starts_with(kFile)) return std::nullopt;
  line.remove_prefix(kFile.size());
  const std::size_t at = line.rfind(kLine);
  if (at == std::string_view::npos) return std::nullopt;
  ExportedSourceFrame frame;
  frame.file = line.substr(0, at);
  line.remove_prefix(at + kLine.size());
  const auto number = std::from_chars(line.data(), line.data() + line.size(), frame.line);
  if (number.ec != std::errc()) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(number.ptr - line.data()));
  constexpr std::string_view kIn = ", in ";
  if (line.starts_with(kIn)) frame.function = line.substr(kIn.size());
  return frame;
}

bool is_caret_line(std::string_view line) {
  return line.find_first_of("^~") != std::string_view::npos && line.find_first_not_of(" ^~") == std::string_view::npos;
}

}  // namespace

ExportedSourceStack parse_stack_trace(std::string_view text) {
  ExportedSourceStack stack;
  std::size_t indent = 0;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (auto frame = frame_line(line)) {
      stack.push_back(std::move(*frame));
    } else if (!stack.empty() && is_caret_line(line) && !stack.back().code.empty() && stack.back().column == 0) {
      const std::size_t begin = line.find_first_of("^~");
      const std::size_t end = line.find_last_of("^~") + 1;
      if (begin < indent) continue;
      stack.back().column = static_cast<std::uint32_t>(begin - indent + 1);
      stack.back().column_end = static_cast<std::uint32_t>(end - indent + 1);
    } else if (!stack.empty() && stack.back().code.empty()) {
      stack.back().code = stripped(line);
      indent = std::min(line.find_first_not_of(" \t"), line.size());
    }
  }
  return stack;
}

}  // namespace tl

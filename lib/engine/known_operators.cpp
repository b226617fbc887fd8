#include "engine/known_operators.h"

#include <algorithm>
#include <system_error>

#include "core/error.h"
#include "core/mapped_file.h"
#include "engine/registry.h"

namespace tl {
namespace {

constexpr std::string_view kHeader = "torchlens operators 1";

bool is_in(const std::vector<std::string>& sorted, std::string_view name) {
  return std::ranges::binary_search(sorted, name, std::less<>());
}

}  // namespace

bool KnownOperators::has_operator(std::string_view name) const { return is_in(operators, name); }
bool KnownOperators::has_class(std::string_view name) const { return is_in(classes, name); }

std::optional<KnownOperators> read_known_operators(const std::filesystem::path& executable_dir) {
  for (const auto& place : engine_locations(executable_dir)) {
    std::error_code ignored;
    if (!std::filesystem::exists(place, ignored)) continue;
    const auto list = place.parent_path() / kOperatorListFileName;
    if (!std::filesystem::is_regular_file(list, ignored)) return std::nullopt;
    try {
      const auto file = MappedFile::open(list);
      return parse_known_operators({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
    } catch (const Error&) {  // a list that cannot be read is as good as none
      return std::nullopt;
    }
  }
  return std::nullopt;
}

std::string format_known_operators(const KnownOperators& known) {
  std::string text = std::string(kHeader) + "\nengine " + known.engine + '\n';
  for (const auto& name : known.operators) text += "op " + name + '\n';
  for (const auto& name : known.classes) text += "class " + name + '\n';
  return text;
}

std::optional<KnownOperators> parse_known_operators(std::string_view text) {
  KnownOperators known;
  bool header = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!header) {
      if (line != kHeader) return std::nullopt;
      header = true;
    } else if (line.starts_with("op ")) {
      known.operators.emplace_back(line.substr(3));
    } else if (line.starts_with("class ")) {
      known.classes.emplace_back(line.substr(6));
    } else if (line.starts_with("engine ")) {
      known.engine = line.substr(7);
    }
  }
  if (!header || known.operators.empty()) return std::nullopt;
  std::ranges::sort(known.operators);
  std::ranges::sort(known.classes);
  return known;
}

}  // namespace tl

#include "ops/op_semantics.h"

#include <algorithm>
#include <array>
#include <functional>

namespace tl {
namespace {

constexpr OpSemantics kDefaultRow{};

/// Python modules whose functions carry the module's name as a prefix in aten: torch.linalg.vector_norm is
/// aten::linalg_vector_norm.
constexpr std::array<std::string_view, 3> kPythonModulePrefixes = {"fft_", "linalg_", "special_"};

const OpSemantics* find_row(std::string_view name) {
  const OpTable table = op_table();
  const OpSemantics* row =
      std::ranges::lower_bound(table.begin, table.end, name, std::ranges::less{}, &OpSemantics::name);
  return row != table.end && row->name == name ? row : nullptr;
}

std::string_view without_overload(std::string_view name) {
  const auto separator = name.find("::");
  const auto dot = name.find('.', separator == std::string_view::npos ? 0 : separator);
  return name.substr(0, dot);
}

std::string_view own_name(std::string_view qualified_name) {
  const auto separator = qualified_name.rfind("::");
  if (separator == std::string_view::npos) return qualified_name;
  const std::string_view name = qualified_name.substr(separator + 2);
  if (qualified_name.substr(0, separator) != "aten") return name;
  for (const std::string_view prefix : kPythonModulePrefixes) {
    if (name.size() > prefix.size() && name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

}  // namespace

const OpSemantics& op_semantics(std::string_view name) {
  if (const OpSemantics* row = find_row(name)) return *row;
  if (const OpSemantics* row = find_row(without_overload(name))) return *row;
  return kDefaultRow;
}

std::string_view func_name_of(std::string_view qualified_name) {
  const std::string_view name = without_overload(qualified_name);
  const OpSemantics* row = find_row(name);
  return row != nullptr && !row->func_name.empty() ? row->func_name : own_name(name);
}

std::string layer_type_of(std::string_view func_name) {
  std::string layer_type;
  layer_type.reserve(func_name.size());
  for (const char c : func_name) {
    if (c != '_') layer_type.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return layer_type;
}

}  // namespace tl

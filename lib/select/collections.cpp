#include "select/collections.h"

#include <algorithm>
#include <charconv>

#include "core/text.h"

namespace tl {
namespace {

struct Collection {
  std::string_view name;
  Found::Kind kind;
};
constexpr Collection kCollections[] = {
    {"layers", Found::Kind::kLayer},
    {"ops", Found::Kind::kOp},
    {"modules", Found::Kind::kModule},
    {"module_calls", Found::Kind::kModuleCall},
    {"params", Found::Kind::kParam},
    {"buffers", Found::Kind::kBuffer},
    {"conditionals", Found::Kind::kConditional},
    {"module-calls", Found::Kind::kModuleCall},
};

const Collection* collection_of(std::string_view name) {
  const auto* found = std::ranges::find(kCollections, name, &Collection::name);
  return found == std::end(kCollections) ? nullptr : found;
}

std::string_view unquoted(std::string_view text) {
  for (const char quote : {'"', '\''}) {
    if (text.size() >= 2 && text.front() == quote && text.back() == quote) return text.substr(1, text.size() - 2);
  }
  return text;
}

/// One end of a slice: an integer, or nothing.
bool is_bound(std::string_view text) { return text.empty() || integer_from(text).has_value(); }

/// A bound of a Python slice as a row.
std::size_t clamped(std::optional<std::int32_t> bound, std::size_t rows, std::size_t missing) {
  if (!bound) return missing;
  const auto value = *bound < 0 ? *bound + static_cast<std::int64_t>(rows) : static_cast<std::int64_t>(*bound);
  return static_cast<std::size_t>(std::clamp<std::int64_t>(value, 0, static_cast<std::int64_t>(rows)));
}

/// layers.recurrent: the field is_recurrent.
const Field* filter_field(TableId table, std::string_view filter) {
  if (filter == "saved") filter = "saved_activation";
  for (const std::string_view prefix : {"is_", "has_", "uses_", ""}) {
    const auto* field = find_field(table, std::string(prefix) + std::string(filter));
    if (field != nullptr && field->type == FieldType::kBool) return field;
  }
  return nullptr;
}

/// What can stand behind the dot.
std::vector<std::string> filters_of(TableId table) {
  std::vector<std::string> names;
  for (const auto& field : fields_of(table)) {
    if (field.type != FieldType::kBool) continue;
    auto name = field.name;
    for (const std::string_view prefix : {"is_", "has_", "uses_"}) {
      if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    }
    names.emplace_back(name == "saved_activation" ? "saved" : name);
  }
  return names;
}

bool is_module_or_above(const Trace& trace, std::string_view name) {
  return std::ranges::any_of(trace.modules.address, [&](std::int32_t code) {
    const auto address = trace.strings[code];
    return address.starts_with(name) && (address.size() == name.size() || address[name.size()] == '.');
  });
}

std::vector<Found> slice(const Trace& trace, const CollectionKey& key) {
  const auto rows = num_rows(trace, table_of(key.kind));
  std::vector<Found> found;
  const auto end = clamped(key.end, rows, rows);
  for (auto row = clamped(key.begin, rows, 0); row < end; ++row) {
    found.push_back({key.kind, static_cast<std::uint32_t>(row)});
  }
  return found;
}

}  // namespace

bool is_collection(std::string_view name) { return collection_of(name) != nullptr; }

std::optional<std::int32_t> integer_from(std::string_view text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<CollectionKey> collection_key(std::string_view key) {
  const auto open = key.find('[');
  if (open == std::string_view::npos || !key.ends_with(']')) return std::nullopt;
  const auto* collection = collection_of(key.substr(0, open));
  if (collection == nullptr) return std::nullopt;
  CollectionKey parts{.text = std::string(key),
                      .collection = std::string(collection->name),
                      .kind = collection->kind,
                      .inner = std::string(unquoted(key.substr(open + 1, key.size() - open - 2))),
                      .index = {},
                      .begin = {},
                      .end = {}};
  parts.index = integer_from(parts.inner);
  const auto colon = parts.inner.find(':');
  if (colon == std::string::npos) return parts;
  const auto first = std::string_view(parts.inner).substr(0, colon);
  const auto last = std::string_view(parts.inner).substr(colon + 1);
  parts.is_slice = is_bound(first) && is_bound(last);
  parts.begin = integer_from(first);
  parts.end = integer_from(last);
  return parts;
}

Result<Found> element(const Trace& trace, Found::Kind kind, std::int32_t index) {
  const auto table = table_of(kind);
  const auto rows = static_cast<std::int64_t>(num_rows(trace, table));
  const auto row = index < 0 ? index + rows : static_cast<std::int64_t>(index);
  if (row >= 0 && row < rows) return Found{kind, static_cast<std::uint32_t>(row)};
  const auto name = std::string(to_string(table));
  if (rows == 0) return Error(ErrorCode::kIndexOutOfRange, "index " + std::to_string(index) + ": there are no " + name);
  return Error(ErrorCode::kIndexOutOfRange,
               "index " + std::to_string(index) + ": there are " + std::to_string(rows) + " " + name,
               "please specify an index in the range " + std::to_string(-rows) + " - " + std::to_string(rows - 1));
}

std::optional<Error> unknown_filter(const Trace& trace, std::string_view key) {
  const auto dot = key.find('.');
  const auto* collection = dot == std::string_view::npos ? nullptr : collection_of(key.substr(0, dot));
  if (collection == nullptr || is_module_or_above(trace, collection->name)) return std::nullopt;
  const auto table = table_of(collection->kind);
  const auto filter = key.substr(dot + 1);
  if (filter_field(table, filter) != nullptr) return std::nullopt;
  const auto names = filters_of(table);
  const auto close = did_you_mean(filter, names);
  std::string hint;
  for (const auto& name : close.empty() ? names : close) {
    hint += (hint.empty() ? "" : ", ") + std::string(collection->name) + "." + name;
  }
  return Error(
      ErrorCode::kUnknownField,
      "'" + std::string(key) + "': " + std::string(collection->name) + " have no filter '" + std::string(filter) + "'",
      close.empty() ? "there are " + hint : "did you mean " + hint + "?");
}

std::optional<Result<std::vector<Found>>> slice_or_filter(const Trace& trace, std::string_view key) {
  if (const auto parts = collection_key(key)) {
    if (!parts->is_slice) return std::nullopt;
    return slice(trace, *parts);
  }
  const auto dot = key.find('.');
  const auto* collection = dot == std::string_view::npos ? nullptr : collection_of(key.substr(0, dot));
  if (collection == nullptr) return std::nullopt;
  const auto table = table_of(collection->kind);
  const auto* field = filter_field(table, key.substr(dot + 1));
  if (field == nullptr) return std::nullopt;
  const FieldContext context(trace);
  FieldValue value;
  std::vector<Found> found;
  for (std::size_t row = 0; row < num_rows(trace, table); ++row) {
    field->get(context, row, value);
    if (value.kind == FieldValue::Kind::kBool && value.integer != 0) {
      found.push_back({collection->kind, static_cast<std::uint32_t>(row)});
    }
  }
  return found;
}

}  // namespace tl

#include "field_text.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "json_output.h"
#include "tensor/dtype.h"

namespace tl::cli {
namespace {

using Kind = FieldValue::Kind;

/// The shortest text that reads back as the same double.
std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

template <typename Items, typename Text>
std::string joined(const Items& items, Text text) {
  std::string result;
  for (const auto& item : items) {
    if (!result.empty()) result += ',';
    result += text(item);
  }
  return result;
}

}  // namespace

nlohmann::ordered_json field_json(const Field& field, const FieldValue& value) {
  switch (value.kind) {
    case Kind::kNone:
      return nullptr;
    case Kind::kBool:
      return value.integer != 0;
    case Kind::kInteger:
      if (field.type == FieldType::kDType) return short_name(static_cast<DType>(value.integer));
      return value.integer;
    case Kind::kReal:
      return json_number(value.real);
    case Kind::kString:
      return value.text;
    case Kind::kIntegers:
      return value.integers;
    case Kind::kStrings:
      return value.strings;
  }
  return nullptr;
}

std::string field_text(const Field& field, const FieldValue& value, bool for_people) {
  switch (value.kind) {
    case Kind::kNone:
      return for_people ? "-" : "";
    case Kind::kBool:
      if (!for_people) return value.integer != 0 ? "true" : "false";
      return value.integer != 0 ? "yes" : "no";
    case Kind::kInteger:
      if (field.type == FieldType::kDType) return std::string(short_name(static_cast<DType>(value.integer)));
      if (for_people && field.unit == "bytes" && value.integer >= 0)
        return format_bytes(static_cast<std::uint64_t>(value.integer));
      return std::to_string(value.integer);
    case Kind::kReal:
      return for_people && field.unit == "seconds" ? format_duration(value.real) : real_text(value.real);
    case Kind::kString:
      return std::string(value.text);
    case Kind::kIntegers:
      return joined(value.integers, [](std::int64_t item) { return std::to_string(item); });
    case Kind::kStrings:
      return joined(value.strings, [](const std::string& item) { return item; });
  }
  return {};
}

}  // namespace tl::cli

#include "query_sort.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <numeric>
#include <string>

namespace tl::cli {
namespace {

using Kind = FieldValue::Kind;

/// What a row is compared by in one field.
struct Value {
  bool none = false;
  long double number = 0;  ///< holds every int64 and double exactly
  std::string text;
  std::vector<std::int64_t> integers;
  std::vector<std::string> strings;
};

Value value_of(const FieldValue& value) {
  Value result;
  switch (value.kind) {
    case Kind::kNone:
      result.none = true;
      break;
    case Kind::kBool:
    case Kind::kInteger:
      result.number = static_cast<long double>(value.integer);
      break;
    case Kind::kReal:
      result.none = std::isnan(value.real);
      result.number = static_cast<long double>(value.real);
      break;
    case Kind::kString:
      result.text = value.text;
      break;
    case Kind::kIntegers:
      result.integers = value.integers;
      break;
    case Kind::kStrings:
      result.strings = value.strings;
      break;
  }
  return result;
}

int compare(const Value& a, const Value& b) {
  if (a.number != b.number) return a.number < b.number ? -1 : 1;
  if (a.text != b.text) return a.text < b.text ? -1 : 1;
  if (a.integers != b.integers) return a.integers < b.integers ? -1 : 1;
  if (a.strings != b.strings) return a.strings < b.strings ? -1 : 1;
  return 0;
}

}  // namespace

void sort_rows(const FieldContext& context, std::span<const SortKey> keys, std::vector<SelectedRow>& rows,
               std::size_t shown) {
  std::vector<std::vector<Value>> values(keys.size());
  FieldValue value;
  for (std::size_t key = 0; key < keys.size(); ++key) {
    values[key].reserve(rows.size());
    for (const auto& row : rows) {
      keys[key].field->get(context, row.row, value);
      values[key].push_back(value_of(value));
    }
  }
  std::vector<std::uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    for (std::size_t key = 0; key < keys.size(); ++key) {
      const auto& left = values[key][a];
      const auto& right = values[key][b];
      if (left.none != right.none) return right.none;
      if (left.none) continue;
      if (const int result = compare(left, right); result != 0) return keys[key].descending ? result > 0 : result < 0;
    }
    return a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(), before);
  std::vector<SelectedRow> sorted;
  sorted.reserve(shown);
  for (std::size_t i = 0; i < shown; ++i) sorted.push_back(rows[order[i]]);
  rows = std::move(sorted);
}

}  // namespace tl::cli

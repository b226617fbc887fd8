#pragma once

#include <span>
#include <vector>

#include "select/fields.h"
#include "select/selection.h"

namespace tl::cli {

/// One field of --sort.
struct SortKey {
  const Field* field = nullptr;
  bool descending = false;
};

/// Puts the first `shown` rows in order: numbers by size, texts by their bytes, lists item by item; none and NaN last
/// whatever the direction; equal rows in the order of the table. Each field is computed once a row.
void sort_rows(const FieldContext& context, std::span<const SortKey> keys, std::vector<SelectedRow>& rows,
               std::size_t shown);

}  // namespace tl::cli

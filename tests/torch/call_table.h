#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op_semantics.h"

namespace tl::test {

/// One call in a row of OpSemantics::top_level_calls.
struct TableCall {
  std::string name;
  std::int64_t least = 1;
  std::int64_t most = 1;  ///< of one execution
  static constexpr std::int64_t kAny = std::numeric_limits<std::int32_t>::max();
};

/// The calls of a row in order; `-` and an empty row have none.
inline std::vector<TableCall> table_calls(std::string_view row) {
  std::vector<TableCall> calls;
  if (row == "-") return calls;
  while (!row.empty()) {
    const auto comma = row.find(',');
    auto name = row.substr(0, comma);
    row = comma == std::string_view::npos ? std::string_view{} : row.substr(comma + 1);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    TableCall call;
    if (name.ends_with('?') || name.ends_with('*')) {
      call.least = 0;
      call.most = name.back() == '?' ? 1 : TableCall::kAny;
      name.remove_suffix(1);
    }
    call.name = name;
    calls.push_back(call);
  }
  return calls;
}

/// True for an operator of the dispatcher that RecordFunction does not see.
inline bool is_unobserved(std::string_view full_name) { return op_semantics(full_name).top_level_calls == "-"; }

}  // namespace tl::test

#include <gtest/gtest.h>

#include <span>
#include <string_view>
#include <vector>

#include "ops/op_semantics.h"

namespace tl {
namespace {

std::span<const OpSemantics> rows() {
  const OpTable table = op_table();
  return {table.begin, table.end};
}

bool is_identifier(std::string_view text) {
  return !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
                              std::string_view::npos;
}

bool is_qualified_name(std::string_view text) {
  const auto separator = text.find("::");
  return separator != std::string_view::npos && is_identifier(text.substr(0, separator)) &&
         is_identifier(text.substr(separator + 2));
}

std::vector<std::string_view> split_calls(std::string_view calls) {
  std::vector<std::string_view> parts;
  for (auto comma = calls.find(','); comma != std::string_view::npos; comma = calls.find(',')) {
    parts.push_back(calls.substr(0, comma));
    calls.remove_prefix(comma + 1);
  }
  parts.push_back(calls);
  return parts;
}

TEST(OpTable, HasRows) { EXPECT_GT(rows().size(), 200U); }

TEST(OpTable, IsSortedAndEveryRowIsFoundByItsName) {
  std::string_view previous;
  for (const OpSemantics& row : rows()) {
    EXPECT_LT(previous, row.name);
    EXPECT_EQ(&op_semantics(row.name), &row);
    previous = row.name;
  }
}

TEST(OpTable, NamesAreQualified) {
  for (const OpSemantics& row : rows()) {
    const auto dot = row.name.find('.');
    EXPECT_TRUE(is_qualified_name(row.name.substr(0, dot))) << row.name;
    EXPECT_TRUE(dot == std::string_view::npos || is_identifier(row.name.substr(dot + 1))) << row.name;
  }
}

TEST(OpTable, EveryRowSaysSomething) {
  for (const OpSemantics& row : rows()) {
    EXPECT_TRUE(!row.func_name.empty() || row.hidden_writes != 0 || row.uninitialised || !row.top_level_calls.empty())
        << row.name;
    EXPECT_TRUE(row.func_name.empty() || is_identifier(row.func_name)) << row.name;
  }
}

TEST(OpTable, HiddenWritesSayWhy) {
  for (const OpSemantics& row : rows()) {
    EXPECT_TRUE(row.hidden_writes == 0 || !row.why.empty()) << row.name;
  }
}

// A row of an overload hides the operator's own row, which must then not say what matters when the operator runs.
TEST(OpTable, AnOverloadsRowHidesNoWrites) {
  for (const OpSemantics& row : rows()) {
    const auto dot = row.name.find('.');
    if (dot == std::string_view::npos) continue;
    const OpSemantics& own_row = op_semantics(row.name.substr(0, dot));
    EXPECT_EQ(own_row.hidden_writes, 0U) << row.name;
    EXPECT_FALSE(own_row.uninitialised) << row.name;
  }
}

TEST(OpTable, TopLevelCallsFollowTheGrammar) {
  for (const OpSemantics& row : rows()) {
    if (row.top_level_calls.empty() || row.top_level_calls == "-") continue;
    for (std::string_view call : split_calls(row.top_level_calls)) {
      if (call.ends_with('?') || call.ends_with('*')) call.remove_suffix(1);
      EXPECT_TRUE(is_qualified_name(call)) << row.name << ": " << call;
    }
  }
}

}  // namespace
}  // namespace tl

#include "diff/preconditions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diff_fixtures.h"

namespace tl {
namespace {

struct Param {
  std::string address;
  std::string digest;
  bool read = true;
  std::string all_addresses = {};
};

/// x, then an operation that reads each of the parameters.
Trace model_of(const std::vector<Param>& params) {
  std::string text = "module self\ncontext c0 module=self\ninstruction mix func_name=mix layer_type=mix\n";
  std::string uses;
  int position = 0;
  for (const auto& param : params) {
    text += "param " + param.address + " module=self dtype=f32 shape=[4] bytes=16 digest=" + param.digest;
    if (!param.all_addresses.empty()) text += " all_addresses=\"" + param.all_addresses + "\"";
    text += "\n";
    if (param.read) uses += (uses.empty() ? "" : ",") + param.address + "@" + std::to_string(++position);
  }
  return test::trace_of(text + "call self:1 first_op=x end_op=end\nop x input out=f32[4] address=input.x\n" +
                            "op y mix out=f32[4] parents=x@0 params=" + uses +
                            "\nop z output out=f32[4] parents=y@0 address=output\n",
                        {test::floats({1, 2, 3, 4}), test::floats({1, 2, 3, 4}), test::floats({1, 2, 3, 4})});
}

Precondition weights(const std::vector<Param>& reference, const std::vector<Param>& subject) {
  for (const auto& condition : test::diff_of(model_of(reference), model_of(subject)).preconditions) {
    if (condition.name == "weights") return condition;
  }
  ADD_FAILURE() << "no weights";
  return {};
}

TEST(Weights, CountsWhatIsMissingOnEitherSide) {
  const auto less = weights({{"a.weight", "aa11"}, {"a.bias", "bb22"}}, {{"a.weight", "aa11"}});
  EXPECT_EQ(less.agreement, Agreement::kDifferent);
  EXPECT_EQ(less.same, 1);
  EXPECT_EQ(less.total, 2);
  EXPECT_THAT(less.details, testing::ElementsAre("1 only in reference: a.bias"));
  const auto more = weights({{"a.weight", "aa11"}}, {{"a.weight", "aa11"}, {"b", "cc33"}, {"c", "dd44"}});
  EXPECT_EQ(more.total, 3);
  EXPECT_THAT(more.details, testing::ElementsAre("2 only in subject: b, c"));
}

TEST(Weights, WhatNothingReadsMayBeMissing) {
  const auto unread = weights({{"a.weight", "aa11"}, {"spare", "bb22", false}}, {{"a.weight", "aa11"}});
  EXPECT_EQ(unread.agreement, Agreement::kSame);
  EXPECT_EQ(unread.total, 1);
}

TEST(Weights, TiedOnesMeetEachOfTheOtherSide) {
  const auto tied = std::vector<Param>{{"e.weight", "aa11", true, "e.weight,h.weight"}};
  const auto untied = weights(tied, {{"e.weight", "aa11"}, {"h.weight", "bb22"}});
  EXPECT_EQ(untied.same, 1);
  EXPECT_EQ(untied.total, 2);
  EXPECT_THAT(untied.details, testing::ElementsAre("h.weight: contents differ; the subject has them in e.weight"));
  const auto copied = weights(tied, {{"e.weight", "aa11"}, {"h.weight", "aa11"}});
  EXPECT_EQ(copied.agreement, Agreement::kSame);
  const auto other_first = weights(tied, {{"h.weight", "aa11", true, "e.weight,h.weight"}});
  EXPECT_EQ(other_first.agreement, Agreement::kSame);
  EXPECT_EQ(other_first.total, 1);
}

TEST(Weights, EqualContentUnderOtherNamesIsNotMissing) {
  const auto renamed = weights({{"a.weight", "aa11"}, {"b", "bb22"}}, {{"a.weight", "aa11"}, {"other", "bb22"}});
  EXPECT_EQ(renamed.agreement, Agreement::kSame);
  EXPECT_THAT(renamed.details, testing::ElementsAre("1 under other names"));
}

TEST(Weights, SaysHowManyAreNotListed) {
  std::vector<Param> ours;
  std::vector<Param> theirs;
  for (int i = 0; i < 10; ++i) {
    ours.push_back({"w" + std::to_string(i), "aa1" + std::to_string(i)});
    theirs.push_back({"w" + std::to_string(i), "bb1" + std::to_string(i)});
  }
  const auto all = weights(ours, theirs);
  EXPECT_EQ(all.same, 0);
  EXPECT_EQ(all.total, 10);
  ASSERT_EQ(all.details.size(), 9u);
  EXPECT_EQ(all.details.back(), "and 2 more");
}

}  // namespace
}  // namespace tl

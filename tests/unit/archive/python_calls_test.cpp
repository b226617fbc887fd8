#include "archive/python_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(CallsInLine, ByNameAndByOperator) {
  EXPECT_THAT(calls_in_line("return F.relu(x) + relu(y)", "relu"), ElementsAre(9, 19));
  EXPECT_THAT(calls_in_line("x.relu_().relu()", "relu_"), ElementsAre(2, 10));
  EXPECT_THAT(calls_in_line("y = a + b + c.add(d)", "add"), ElementsAre(6, 10, 14));
  EXPECT_THAT(calls_in_line("x += y * 2", "add_"), ElementsAre(2));
  EXPECT_THAT(calls_in_line("x **= y ** 2 * 3", "pow"), ElementsAre(2, 8));
  EXPECT_THAT(calls_in_line("x **= y ** 2 * 3", "mul"), ElementsAre(13));
  EXPECT_THAT(calls_in_line("x // y / z", "div"), ElementsAre(7));
  EXPECT_THAT(calls_in_line("ok = (a & b) & c", "__and__"), ElementsAre(8, 13));
}

TEST(CallsInLine, OtherNamesDoNotCount) {
  EXPECT_THAT(calls_in_line("leaky_relu(x) + relu6(x) + relu", "relu"), IsEmpty());
  EXPECT_THAT(calls_in_line("_softmax(x)", "softmax"), IsEmpty());
  EXPECT_THAT(calls_in_line("x", "__"), IsEmpty());
}

TEST(CallsInLine, SignsAndUnpackingAreNoOperators) {
  EXPECT_THAT(calls_in_line("x = x - x.mean(dim=-1, keepdim=True)", "sub"), ElementsAre(6));
  EXPECT_THAT(calls_in_line("return -x - (-y) if not -a else -b", "sub"), ElementsAre(10));
  EXPECT_THAT(calls_in_line("x = torch.cat([*torch.split(x, 2, -1)], -1) * w", "mul"), ElementsAre(44));
  EXPECT_THAT(calls_in_line("f(x, **kw) ** g(*a)", "pow"), ElementsAre(11));
  EXPECT_THAT(calls_in_line("f = lambda *a: a[0] * 2", "mul"), ElementsAre(20));
}

TEST(CallsInLine, NumbersCommentsAndStringsAreNoOperators) {
  EXPECT_THAT(calls_in_line("x = x / (s + 1e-5)  # x - mean", "sub"), IsEmpty());
  EXPECT_THAT(calls_in_line("h = torch.tanh(h) + y  # a + b, tanh(h)", "add"), SizeIs(1));
  EXPECT_THAT(calls_in_line("x = relu(x)  # relu(x) here", "relu"), SizeIs(1));
  EXPECT_THAT(calls_in_line("x = relu(x, 'relu(x)', f\"{relu(x)}\")", "relu"), SizeIs(1));
}

TEST(CallsInLine, SubscriptsReckonIndices) {
  EXPECT_THAT(calls_in_line("h = torch.tanh(h * 0.5) + x[:, i + 1]", "add"), SizeIs(1));
  EXPECT_THAT(calls_in_line("h = x[(i + 1) * 2][j + 1] + 1", "add"), ElementsAre(26));
  EXPECT_THAT(calls_in_line("return [a + b, c + d]", "add"), SizeIs(2));
  EXPECT_THAT(calls_in_line("y = x[relu(i)]", "relu"), SizeIs(1));
}

TEST(CallsInLine, LinesOfLongerStatements) {
  EXPECT_THAT(calls_in_line("x = torch.cat([relu(a), relu(b),", "relu"), SizeIs(2));
  EXPECT_THAT(calls_in_line("relu(a)], dim=-1) - relu(b)", "sub"), SizeIs(1));
  EXPECT_THAT(calls_in_line("y = a + b + \\", "add"), SizeIs(2));
  EXPECT_THAT(calls_in_line("y = a + \"\"\"b + c", "add"), SizeIs(1));
  EXPECT_THAT(calls_in_line("y = a + 'b", "add"), IsEmpty());  // no line of Python
}

}  // namespace
}  // namespace tl

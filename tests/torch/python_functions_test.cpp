#include "exported/python_functions.h"

#include <ATen/core/ivalue_inl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tl::lt {
namespace {

double call(const char* name, double a, double b) { return python_function(name)->call({a, b}).toDouble(); }

void expect_same(double value, double expected) {
  EXPECT_EQ(value, expected);
  EXPECT_EQ(std::signbit(value), std::signbit(expected));
}

// The expected values are what CPython 3.11 prints for `a % b` and `a // b`.
TEST(PythonFunctions, RemaindersHaveTheSignOfTheDivisor) {
  expect_same(call("_operator.mod", -0.3, 0.3), 0.0);
  expect_same(call("_operator.mod", 0.6, -0.3), -0.0);
  expect_same(call("_operator.mod", -0.0, 2.0), 0.0);
  expect_same(call("_operator.mod", -1.0, 3.0), 2.0);
  expect_same(call("_operator.mod", 5.5, -2.0), -0.5);
}

TEST(PythonFunctions, FloorDivisionDoesNotRoundUp) {
  expect_same(call("_operator.floordiv", 1.0, 0.1), 9.0);
  expect_same(call("_operator.floordiv", -1.0, 0.1), -10.0);
  expect_same(call("_operator.floordiv", 6.0, -4.0), -2.0);
  expect_same(call("_operator.floordiv", -0.0, 2.0), -0.0);
  expect_same(call("_operator.floordiv", 1.0, -std::numeric_limits<double>::infinity()), -1.0);
}

}  // namespace
}  // namespace tl::lt

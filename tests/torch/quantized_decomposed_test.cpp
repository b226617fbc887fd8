#include "operators/quantized_decomposed.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor/safetensors.h"

// The expected values are Python's, written by tests/torch/data/make_quantized_decomposed.py.

namespace tl {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr std::string_view kPrefix = "quantized_decomposed::";

const SafetensorsFile& expected_file() {
  static const auto file = SafetensorsFile::open(TL_SOURCE_DIR "/tests/torch/data/quantized_decomposed.safetensors");
  return file;
}

const json& expected(const std::string& part) {
  static const auto parts = json::parse(expected_file().metadata().at("expected"));
  return parts.at(part);
}

at::Tensor tensor_of(const std::string& name) {
  const auto host = expected_file().tensor(name);
  EXPECT_TRUE(host) << name;
  auto tensor = at::empty(host->sizes, static_cast<at::ScalarType>(host->dtype));
  if (host->numel() > 0) std::memcpy(tensor.mutable_data_ptr(), host->storage.data(), host->nbytes());
  return tensor;
}

at::ScalarType dtype_of(const std::string& name) {
  const std::map<std::string, at::ScalarType> dtypes = {{"uint8", at::kByte},
                                                        {"int8", at::kChar},
                                                        {"int16", at::kShort},
                                                        {"int32", at::kInt},
                                                        {"int64", at::kLong},
                                                        {"float16", at::kHalf},
                                                        {"float32", at::kFloat},
                                                        {"float64", at::kDouble},
                                                        {"bool", at::kBool},
                                                        {"uint16", at::kUInt16},
                                                        {"bfloat16", at::kBFloat16},
                                                        {"float8_e5m2", at::kFloat8_e5m2},
                                                        {"float8_e4m3fn", at::kFloat8_e4m3fn}};
  return dtypes.at(name);
}

c10::IValue value_of(const json& argument) {
  if (argument.is_null()) return {};
  if (argument.contains("int")) return argument.at("int").get<std::int64_t>();
  if (argument.contains("float")) return std::strtod(argument.at("float").get<std::string>().c_str(), nullptr);
  if (argument.contains("dtype")) return static_cast<std::int64_t>(dtype_of(argument.at("dtype")));
  const auto tensor = tensor_of(argument.at("tensor"));
  return argument.contains("order") ? tensor.permute(argument.at("order").get<std::vector<std::int64_t>>()) : tensor;
}

c10::OperatorHandle operator_of(const std::string& name) {
  const auto dot = name.find('.');
  const auto overload = dot == std::string::npos ? "" : name.substr(dot + 1);
  return c10::Dispatcher::singleton().findSchemaOrThrow((std::string(kPrefix) + name.substr(0, dot)).c_str(),
                                                        overload.c_str());
}

/// Calls an operator; arguments that are left out at the end take their defaults.
torch::jit::Stack call(const std::string& name, torch::jit::Stack stack) {
  const auto handle = operator_of(name);
  const auto& arguments = handle.schema().arguments();
  while (stack.size() < arguments.size()) stack.push_back(arguments[stack.size()].default_value().value());
  handle.callBoxed(stack);
  return stack;
}

std::string bytes_of(const at::Tensor& tensor) {
  const auto packed = tensor.contiguous();
  return std::string(static_cast<const char*>(packed.const_data_ptr()), packed.nbytes());
}

void expect_equal(const at::Tensor& result, const json& row) {
  const auto tensor = tensor_of(row.at("tensor"));
  ASSERT_EQ(result.scalar_type(), tensor.scalar_type());
  ASSERT_EQ(result.sizes(), tensor.sizes());
  EXPECT_THAT(result.strides(), ElementsAreArray(row.at("strides").get<std::vector<std::int64_t>>()));
  EXPECT_TRUE(bytes_of(result) == bytes_of(tensor)) << "got\n" << result << "\nexpected\n" << tensor;
}

/// Whether this machine converts a NaN to an integer as the one does that wrote the file.
bool converts_nan_alike() {
#if defined(__x86_64__)
  return true;
#else
  return false;
#endif
}

class QuantizedDecomposed : public testing::Test {
 protected:
  void SetUp() override { lt::register_quantized_decomposed(); }
};

TEST_F(QuantizedDecomposed, SchemasArePythons) {
  std::vector<std::string> schemas;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with(kPrefix)) continue;
    std::ostringstream text;
    text << c10::Dispatcher::singleton().findSchema(name)->schema();
    schemas.push_back(text.str());
  }
  EXPECT_THAT(schemas, testing::UnorderedElementsAreArray(expected("schemas").get<std::vector<std::string>>()));
}

TEST_F(QuantizedDecomposed, ValuesArePythons) {
  std::map<std::string, int> compared;
  for (const auto& row : expected("cases")) {
    if (row.contains("raises") || (row.contains("undefined") && !converts_nan_alike())) continue;
    SCOPED_TRACE(row.dump());
    const std::string name = row.at("operator");
    torch::jit::Stack stack;
    for (const auto& argument : row.at("arguments")) stack.push_back(value_of(argument));
    const auto results = call(name, std::move(stack));
    ASSERT_EQ(results.size(), row.at("results").size());
    for (std::size_t i = 0; i < results.size(); ++i) expect_equal(results[i].toTensor(), row.at("results")[i]);
    ++compared[name];
  }
  EXPECT_EQ(compared.size(), expected("schemas").size()) << "every operator has cases";
}

TEST_F(QuantizedDecomposed, RaisesWherePythonRaises) {
  int raised = 0;
  for (const auto& row : expected("cases")) {
    if (!row.contains("raises")) continue;
    SCOPED_TRACE(row.dump());
    torch::jit::Stack stack;
    for (const auto& argument : row.at("arguments")) stack.push_back(value_of(argument));
    EXPECT_THROW(call(row.at("operator"), std::move(stack)), std::exception);
    ++raised;
  }
  EXPECT_GT(raised, 100);
}

std::string message_of(const std::string& name, torch::jit::Stack stack) {
  try {
    call(name, std::move(stack));
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "nothing was raised";
}

TEST_F(QuantizedDecomposed, MessagesNameBothSides) {
  const auto x = at::ones({2, 3});
  const auto per_tensor = [&](const at::Tensor& input, double scale, std::int64_t low, std::int64_t high) {
    return message_of("quantize_per_tensor", {input, scale, 0, low, high, static_cast<std::int64_t>(at::kChar)});
  };
  EXPECT_THAT(per_tensor(x, 1.0, -129, 127), HasSubstr("quant_min -129 is below -128, the least value of Char"));
  EXPECT_THAT(per_tensor(x, 1.0, -128, 200), HasSubstr("quant_max 200 is above 127, the greatest value of Char"));
  EXPECT_THAT(per_tensor(x.to(at::kDouble), 1.0, 0, 1), HasSubstr("expected an input of dtype Float, but got Double"));
  EXPECT_THAT(per_tensor(x, 0.0, 0, 1), HasSubstr("scale must not be 0"));
  const auto channels = at::ones({2});
  EXPECT_THAT(message_of("fake_quant_per_channel", {x, channels, channels, 2, 0, 255}),
              HasSubstr("axis 2 is outside the 2 dimensions"));
  EXPECT_THAT(message_of("quantize_per_token", {x, at::ones({3}), at::zeros({2}), 0, 255, 0}),
              HasSubstr("expected one of scales for each of the 2 tokens, but got 3"));
}

// Python runs out of memory over this one.
TEST_F(QuantizedDecomposed, AnAbsurdAxisIsRefusedAtOnce) {
  const auto one = at::ones({1});
  EXPECT_THAT(message_of("fake_quant_per_channel", {one, one, one, std::numeric_limits<std::int64_t>::min(), 0, 255}),
              HasSubstr("range"));
}

thread_local int depth = 0;
thread_local std::vector<std::string> outermost;

TEST_F(QuantizedDecomposed, EachIsOneOperator) {
  const auto x = at::ones({2, 3});
  const auto scales = at::ones({2});
  depth = 0;
  outermost.clear();
  const auto start = [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
    if (depth++ == 0) outermost.emplace_back(function.name());
    return nullptr;
  };
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(start, [](const at::RecordFunction&, at::ObserverContext*) {
                                   --depth;
                                 }).scopes({at::RecordScope::FUNCTION}));
  call("_choose_qparams_per_token_asymmetric_impl", {x, static_cast<std::int64_t>(at::kChar)});
  call("fake_quant_per_channel", {x, scales, scales, 0, -128, 127});
  at::removeCallback(handle);
  EXPECT_THAT(outermost, ElementsAre("quantized_decomposed::_choose_qparams_per_token_asymmetric_impl",
                                     "quantized_decomposed::fake_quant_per_channel"));
}

// Straight through where the value lies in the range, nothing where it was cut off: FakeQuantPerChannel.backward.
TEST_F(QuantizedDecomposed, FakeQuantHasItsGradient) {
  auto x = at::tensor({-3.0F, -1.0F, 0.4F, 9.0F}).requires_grad_(true);
  const auto out = call("fake_quant_per_channel", {x, at::ones({4}), at::zeros({4}), 0, -2, 7})[0].toTensor();
  EXPECT_TRUE(at::equal(out.detach(), at::tensor({-2.0F, -1.0F, 0.0F, 7.0F})));
  out.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::tensor({0.0F, 1.0F, 1.0F, 0.0F})));
}

TEST_F(QuantizedDecomposed, RegisteringAgainDoesNothing) {
  EXPECT_NO_THROW(lt::register_quantized_decomposed());
  EXPECT_THAT(message_of("convert_element_type.no_fuse", {at::ones({2}), 0}), "nothing was raised");
}

at::Tensor foreign_quantize(const at::Tensor& input, double, std::int64_t, std::int64_t, std::int64_t, at::ScalarType) {
  return at::full_like(input, 42);
}

/// In a process where a library has defined one of the operators already.
[[noreturn]] void register_after_a_library() {
  torch::Library library(torch::Library::DEF, "quantized_decomposed", std::nullopt, __FILE__, __LINE__);
  library.def(
      "quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, "
      "ScalarType dtype) -> Tensor");
  library.impl("quantize_per_tensor", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, &foreign_quantize));
  lt::register_quantized_decomposed();
  const auto x = at::zeros({1});
  const auto dtype = static_cast<std::int64_t>(at::kChar);
  const auto foreign = call("quantize_per_tensor", {x, 1.0, 0, -128, 127, dtype})[0].toTensor();
  const auto ours = call("quantize_per_tensor.tensor", {x, at::ones({1}), at::zeros({1}), -128, 127, dtype})[0];
  std::_Exit(foreign.item<float>() == 42.0F && ours.toTensor().item<int>() == 0 ? 0 : 1);
}

TEST(QuantizedDecomposedDeathTest, WhatALibraryDefinedIsKept) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(register_after_a_library(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tl

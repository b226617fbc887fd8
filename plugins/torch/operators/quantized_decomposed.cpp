#include "operators/quantized_decomposed.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/library.h>

#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace tl::lt {
namespace {

using at::Scalar;
using at::ScalarType;
using at::Tensor;
using OptionalType = std::optional<ScalarType>;
using Parameters = std::tuple<Tensor, Tensor>;  ///< scale and zero point

/// The integers that a quantised element type can hold. For the 8-bit floats the largest finite values.
struct Bounds {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

template <typename Integer>
constexpr Bounds bounds_of_integer() {
  return {std::numeric_limits<Integer>::min(), std::numeric_limits<Integer>::max()};
}

std::optional<Bounds> bounds_of(ScalarType dtype) {
  switch (dtype) {
    case at::kByte:
      return bounds_of_integer<std::uint8_t>();
    case at::kChar:
      return bounds_of_integer<std::int8_t>();
    case at::kUInt16:
      return bounds_of_integer<std::uint16_t>();
    case at::kShort:
      return bounds_of_integer<std::int16_t>();
    case at::kInt:
      return bounds_of_integer<std::int32_t>();
    case at::kFloat8_e5m2:
      return Bounds{-57344, 57344};
    case at::kFloat8_e4m3fn:
      return Bounds{-448, 448};
    default:
      return std::nullopt;
  }
}

bool is_less(const Scalar& a, const Scalar& b) {
  if (a.isIntegral(true) && b.isIntegral(true)) return a.toLong() < b.toLong();
  return a.toDouble() < b.toDouble();
}

void check_bounds(const Scalar& quant_min, const Scalar& quant_max, ScalarType dtype) {
  const auto bounds = bounds_of(dtype);
  TORCH_CHECK(bounds, "unsupported dtype: ", dtype);
  TORCH_CHECK(!is_less(quant_min, bounds->low), "quant_min ", quant_min, " is below ", bounds->low,
              ", the least value of ", dtype);
  TORCH_CHECK(!is_less(bounds->high, quant_max), "quant_max ", quant_max, " is above ", bounds->high,
              ", the greatest value of ", dtype);
}

void check_range_holds_zero(std::int64_t quant_min, std::int64_t quant_max) {
  TORCH_CHECK(quant_min <= 0 && 0 <= quant_max, "the range quant_min ", quant_min, " to quant_max ", quant_max,
              " must include 0");
  TORCH_CHECK(quant_min < quant_max, "quant_min ", quant_min, " must be less than quant_max ", quant_max);
}

void check_dtype(const Tensor& input, ScalarType dtype) {
  TORCH_CHECK(input.scalar_type() == dtype, "expected an input of dtype ", dtype, ", but got ", input.scalar_type());
}

void check_one_element(const Tensor& scale, const Tensor& zero_point) {
  TORCH_CHECK(zero_point.numel() == 1, "expected a zero_point of one element, but got ", zero_point.numel());
  TORCH_CHECK(scale.numel() == 1, "expected a scale of one element, but got ", scale.numel());
}

/// A real number for arithmetic on the host.
Scalar item_of(const Tensor& tensor, const char* name) {
  auto value = tensor.item();
  TORCH_CHECK(!value.isComplex(), name, " must be a real number, but got ", value);
  return value;
}

/// 1.0 / tensor, as Python computes it.
Tensor inverse_of(const Tensor& tensor) { return at::mul(at::reciprocal(tensor), 1.0); }

/// 32-bit floats; half-precision ones are widened, everything else is refused.
Tensor as_float(const Tensor& input) {
  if (input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16) return input.to(at::kFloat);
  check_dtype(input, at::kFloat);
  return input;
}

// Per tensor.

Tensor quantize(const Tensor& input, const Scalar& scale, const Scalar& zero_point, const Scalar& quant_min,
                const Scalar& quant_max, ScalarType dtype) {
  const auto values = as_float(input);
  check_bounds(quant_min, quant_max, dtype);
  TORCH_CHECK(scale.toDouble() != 0.0, "scale must not be 0");
  const double inverse = 1.0 / scale.toDouble();
  return at::clamp(at::add(at::round(at::mul(values, inverse)), zero_point), quant_min, quant_max).to(dtype);
}

Tensor dequantize(const Tensor& input, const Scalar& scale, const Scalar& zero_point, ScalarType dtype,
                  OptionalType out_dtype) {
  check_dtype(input, dtype);
  TORCH_CHECK(bounds_of(dtype), "unsupported dtype: ", dtype);
  return at::mul(at::sub(input.to(out_dtype.value_or(at::kFloat)), zero_point), scale);
}

Tensor quantize_per_tensor(const Tensor& input, double scale, std::int64_t zero_point, std::int64_t quant_min,
                           std::int64_t quant_max, ScalarType dtype) {
  return quantize(input, scale, zero_point, quant_min, quant_max, dtype);
}

Tensor quantize_per_tensor_tensor(const Tensor& input, const Tensor& scale, const Tensor& zero_point,
                                  std::int64_t quant_min, std::int64_t quant_max, ScalarType dtype) {
  check_one_element(scale, zero_point);
  return quantize(input, item_of(scale, "scale"), item_of(zero_point, "zero_point"), quant_min, quant_max, dtype);
}

Tensor quantize_per_tensor_tensor2(const Tensor& input, const Tensor& scale, const Tensor& zero_point,
                                   const Tensor& quant_min, const Tensor& quant_max, ScalarType dtype) {
  check_one_element(scale, zero_point);
  return quantize(input, item_of(scale, "scale"), item_of(zero_point, "zero_point"), item_of(quant_min, "quant_min"),
                  item_of(quant_max, "quant_max"), dtype);
}

Tensor dequantize_per_tensor(const Tensor& input, double scale, std::int64_t zero_point, std::int64_t /*quant_min*/,
                             std::int64_t /*quant_max*/, ScalarType dtype, OptionalType out_dtype) {
  return dequantize(input, scale, zero_point, dtype, out_dtype);
}

Tensor dequantize_per_tensor_tensor(const Tensor& input, const Tensor& scale, const Tensor& zero_point,
                                    std::int64_t /*quant_min*/, std::int64_t /*quant_max*/, ScalarType dtype,
                                    OptionalType out_dtype) {
  check_one_element(scale, zero_point);
  return dequantize(input, item_of(scale, "scale"), item_of(zero_point, "zero_point"), dtype, out_dtype);
}

Tensor dequantize_per_tensor_tensor2(const Tensor& input, const Tensor& scale, const Tensor& zero_point,
                                     const Tensor& quant_min, const Tensor& quant_max, ScalarType dtype,
                                     OptionalType out_dtype) {
  check_one_element(scale, zero_point);
  item_of(quant_min, "quant_min");  // read by nobody, but Python raises where there is not one
  item_of(quant_max, "quant_max");
  return dequantize(input, item_of(scale, "scale"), item_of(zero_point, "zero_point"), dtype, out_dtype);
}

/// Smallest and largest element with 0 between them; the width of the target range.
struct Extent {
  Tensor low;
  Tensor high;
  double width = 0;
};

/// Python's checks that the smallest is not above the largest are left out: of elements that exist it never is.
Extent extent_of(const Tensor& input, std::int64_t quant_min, std::int64_t quant_max, ScalarType dtype) {
  const auto type = input.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16,
              "expected an input of dtype Float, Half or BFloat16, but got ", type);
  TORCH_CHECK(bounds_of(dtype), "unsupported dtype: ", dtype);
  check_range_holds_zero(quant_min, quant_max);
  const auto [least, greatest] = at::aminmax(input);
  const auto width = static_cast<std::uint64_t>(quant_max) - static_cast<std::uint64_t>(quant_min);
  return {at::min(least, at::zeros_like(least)), at::max(greatest, at::zeros_like(greatest)),
          static_cast<double>(width)};
}

/// The least scale as a tensor of one element: its 32 bits and its dimension take part in type promotion.
Tensor epsilon(double eps, const Tensor& like) {
  return at::full({1}, static_cast<float>(eps), at::TensorOptions(at::kFloat).device(like.device()));
}

Parameters choose_qparams(const Tensor& input, std::int64_t quant_min, std::int64_t quant_max, double eps,
                          ScalarType dtype) {
  const auto extent = extent_of(input, quant_min, quant_max, dtype);
  const auto scale = at::max(at::div(at::sub(extent.high, extent.low), extent.width), epsilon(eps, extent.low));
  const auto zero_point = at::rsub(at::round(at::div(extent.low, scale)).to(at::kInt), quant_min);
  return {scale.to(at::kDouble), at::clamp(zero_point, quant_min, quant_max).to(at::kLong)};
}

Parameters choose_qparams_symmetric(const Tensor& input, std::int64_t quant_min, std::int64_t quant_max, double eps,
                                    ScalarType dtype) {
  const auto extent = extent_of(input, quant_min, quant_max, dtype);
  const auto reach = at::max(at::neg(extent.low), extent.high);
  const auto scale = at::max(at::div(reach, extent.width / 2), epsilon(eps, extent.low));
  const std::int64_t zero_point = dtype == at::kByte ? 128 : 0;
  return {scale.to(at::kDouble), at::full({1}, zero_point, at::TensorOptions(at::kLong).device(input.device()))};
}

// Per channel.

/// The order of dimensions that swaps `axis` with the first; it is its own inverse. A negative axis counts from the
/// end.
std::vector<std::int64_t> axis_first(const Tensor& input, std::int64_t axis) {
  TORCH_CHECK(-input.dim() <= axis && axis < input.dim(), "axis ", axis, " is outside the ", input.dim(),
              " dimensions of the input");
  std::vector<std::int64_t> order(static_cast<std::size_t>(input.dim()));
  std::iota(order.begin(), order.end(), 0);
  if (axis < 0) axis += input.dim();
  std::swap(order.front(), order[static_cast<std::size_t>(axis)]);
  return order;
}

/// One size per channel, then ones.
std::vector<std::int64_t> channel_shape(const Tensor& input, const Tensor& scales) {
  TORCH_CHECK(scales.dim() > 0, "scales must have a dimension");
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape.front() = scales.size(0);
  return shape;
}

Tensor quantize_per_channel(const Tensor& input, const Tensor& scales, const Tensor& zero_points, std::int64_t axis,
                            std::int64_t quant_min, std::int64_t quant_max, ScalarType dtype) {
  const auto values = as_float(input);
  const auto order = axis_first(values, axis);
  check_bounds(quant_min, quant_max, dtype);
  const auto shape = channel_shape(values, scales);
  const auto scaled = at::round(at::mul(values.permute(order), inverse_of(scales.view(shape))));
  const auto result = at::clamp(at::add(scaled, zero_points.view(shape)), quant_min, quant_max);
  return result.permute(order).to(dtype);
}

Tensor dequantize_per_channel(const Tensor& input, const Tensor& scales, const std::optional<Tensor>& zero_points,
                              std::int64_t axis, std::int64_t quant_min, std::int64_t quant_max, ScalarType dtype,
                              OptionalType out_dtype) {
  check_dtype(input, dtype);
  const auto order = axis_first(input, axis);
  check_bounds(quant_min, quant_max, dtype);
  const auto shape = channel_shape(input, scales);
  auto values = input.permute(order);
  if (zero_points) values = at::sub(values, zero_points->view(shape));
  values = at::mul(values, scales.view(shape));
  return values.to(out_dtype.value_or(at::kFloat)).permute(order);
}

// Per token: every row along the last dimension has parameters of its own.

Parameters choose_qparams_per_token(const Tensor& input, ScalarType dtype) {
  auto scales = at::amax(at::abs(input), -1, true);
  if (scales.scalar_type() == at::kHalf) scales = scales.to(at::kFloat);
  TORCH_CHECK(dtype == at::kChar, "unsupported dtype: ", dtype, ", expected ", at::kChar);
  scales = at::div(at::clamp(scales, 1e-5), 127);
  return {scales, at::zeros_like(scales)};
}

Parameters choose_qparams_per_token_asymmetric(const Tensor& input, ScalarType /*dtype*/) {
  constexpr std::int64_t kMin = -128;
  constexpr std::int64_t kMax = 127;
  const auto least = at::amin(input, -1, true);
  const auto greatest = at::amax(input, -1, true);
  const auto low = at::min(least, at::zeros_like(least));
  const auto high = at::max(greatest, at::zeros_like(greatest));
  const auto scale = at::clamp(at::div(at::sub(high, low), static_cast<double>(kMax - kMin)),
                               static_cast<double>(std::numeric_limits<float>::epsilon()));
  const auto descaled_low = at::div(low, scale);
  const auto descaled_high = at::div(high, scale);
  const auto error = at::add(at::add(descaled_low, kMin), at::add(descaled_high, kMax));
  const auto zero_point = at::where(at::gt(error, 0), at::rsub(descaled_low, kMin), at::rsub(descaled_high, kMax));
  return {scale.to(at::kDouble), at::round(at::clamp(zero_point, kMin, kMax)).to(at::kLong)};
}

void check_one_per_token(const Tensor& input, const Tensor& parameters, const char* name) {
  std::int64_t tokens = 1;
  for (std::int64_t i = 0; i + 1 < input.dim(); ++i) tokens *= input.size(i);
  TORCH_CHECK(tokens == parameters.numel(), "expected one of ", name, " for each of the ", tokens, " tokens, but got ",
              parameters.numel());
}

Tensor quantize_per_token(const Tensor& input, const Tensor& scales, const Tensor& zero_points, std::int64_t quant_min,
                          std::int64_t quant_max, ScalarType dtype) {
  check_bounds(quant_min, quant_max, dtype);
  check_one_per_token(input, scales, "scales");
  check_one_per_token(input, zero_points, "zero_points");
  const auto scaled = at::round(at::add(at::mul(input, inverse_of(scales)), zero_points));
  return at::clamp(scaled, quant_min, quant_max).to(dtype);
}

Tensor dequantize_per_token(const Tensor& input, const Tensor& scales, const Tensor& zero_points,
                            std::int64_t /*quant_min*/, std::int64_t /*quant_max*/, ScalarType /*dtype*/,
                            ScalarType output_dtype) {
  return at::mul(at::sub(input, zero_points), scales).to(output_dtype);
}

// Per group of `group_size` elements along the rows of a matrix.

/// The group size that holds for `input`; one group may stand for a whole shorter row.
std::int64_t checked_group_size(const Tensor& input, const Tensor& scales, std::int64_t group_size) {
  TORCH_CHECK(group_size > 1, "group_size must be above 1, but is ", group_size);
  TORCH_CHECK(input.dim() == 2, "expected an input of 2 dimensions, but got ", input.dim());
  const auto width = input.size(-1);
  if (group_size > width && scales.size(-1) == 1) group_size = width;
  TORCH_CHECK(group_size != 0 && width % group_size == 0, "the input's last size ", width,
              " must be a multiple of group_size ", group_size);
  return group_size;
}

Tensor quantize_per_channel_group(const Tensor& input, const Tensor& scales, const Tensor& zero_points,
                                  std::int64_t quant_min, std::int64_t quant_max, ScalarType dtype,
                                  std::int64_t group_size) {
  group_size = checked_group_size(input, scales, group_size);
  const auto values = input.reshape({-1, group_size});
  TORCH_CHECK(!at::isnan(values).any().item<bool>(), "the input must not contain NaN");
  auto scaled = at::round(at::add(at::mul(values, inverse_of(scales.reshape({-1, 1}))), zero_points.reshape({-1, 1})));
  return scaled.clamp_(quant_min, quant_max).to(dtype).reshape_as(input);
}

Tensor dequantize_per_channel_group(const Tensor& input, const Tensor& scales, const std::optional<Tensor>& zero_points,
                                    std::int64_t /*quant_min*/, std::int64_t /*quant_max*/, ScalarType /*dtype*/,
                                    std::int64_t group_size, ScalarType output_dtype) {
  group_size = checked_group_size(input, scales, group_size);
  const auto values = input.reshape({-1, group_size});
  const auto zeros =
      zero_points ? zero_points->reshape({-1, 1}) : at::zeros({}, at::TensorOptions(at::kInt).device(scales.device()));
  return at::mul(at::sub(values, zeros), scales.reshape({-1, 1})).reshape_as(input).to(output_dtype);
}

// Others.

/// A 1-D tensor with ones around its dimension. `axis` is not made positive, as Python does not.
Tensor around_axis(Tensor tensor, std::int64_t axis, std::int64_t dim) {
  for (std::int64_t i = 0; i < axis; ++i) tensor = at::unsqueeze(tensor, i);
  for (std::int64_t i = axis + 1; i < dim; ++i) tensor = at::unsqueeze(tensor, i);
  return tensor;
}

/// The values, and where the gradient passes.
struct FakeQuantized {
  Tensor values;
  Tensor mask;
};

FakeQuantized fake_quantize(const Tensor& input, const Tensor& scales, const Tensor& zero_points, std::int64_t axis,
                            std::int64_t quant_min, std::int64_t quant_max) {
  check_dtype(input, at::kFloat);
  TORCH_CHECK(axis < input.dim(), "axis ", axis, " is outside the ", input.dim(), " dimensions of the input");
  const auto scale = around_axis(scales.to(at::kFloat), axis, input.dim());
  const auto zero_point = around_axis(zero_points.to(at::kInt), axis, input.dim());
  const auto quantized = at::add(at::round(at::mul(input, inverse_of(scale))), zero_point);
  return {at::mul(at::sub(at::clamp(quantized, quant_min, quant_max), zero_point), scale),
          at::logical_and(at::ge(quantized, quant_min), at::le(quantized, quant_max))};
}

Tensor fake_quant_per_channel(const Tensor& input, const Tensor& scales, const Tensor& zero_points, std::int64_t axis,
                              std::int64_t quant_min, std::int64_t quant_max) {
  return fake_quantize(input, scales, zero_points, axis, quant_min, quant_max).values;
}

struct FakeQuantPerChannel : torch::autograd::Function<FakeQuantPerChannel> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& input, const Tensor& scales,
                        const Tensor& zero_points, std::int64_t axis, std::int64_t quant_min, std::int64_t quant_max) {
    auto result = fake_quantize(input, scales, zero_points, axis, quant_min, quant_max);
    context->save_for_backward({result.mask});
    return result.values;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    auto passed = at::mul(gradients[0], context->get_saved_variables()[0]);
    return {passed, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

Tensor fake_quant_per_channel_autograd(const Tensor& input, const Tensor& scales, const Tensor& zero_points,
                                       std::int64_t axis, std::int64_t quant_min, std::int64_t quant_max) {
  return FakeQuantPerChannel::apply(input, scales, zero_points, axis, quant_min, quant_max);
}

/// Always a copy, also where the dtype is the input's.
Tensor convert_element_type(const Tensor& input, ScalarType dtype) {
  auto result = at::empty_like(input, input.options().dtype(dtype));
  const at::NoGradGuard guard;
  result.copy_(input);
  return result;
}

// Registration.

/// Defines an operator that nobody has defined yet; true if it did.
template <typename Kernel>
bool define(torch::Library& library, const std::string& schema, Kernel* kernel) {
  const auto name = torch::jit::parseSchema("quantized_decomposed::" + schema).operator_name();
  if (c10::Dispatcher::singleton().findSchema(name)) return false;
  library.def(schema.c_str());
  library.impl(schema.substr(0, schema.find('(')).c_str(),
               torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, kernel));
  return true;
}

void define_per_tensor(torch::Library& library) {
  define(library,
         "quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, "
         "ScalarType dtype) -> Tensor",
         &quantize_per_tensor);
  define(library,
         "quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, "
         "ScalarType dtype) -> Tensor",
         &quantize_per_tensor_tensor);
  define(library,
         "quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, "
         "Tensor quant_max, ScalarType dtype) -> Tensor",
         &quantize_per_tensor_tensor2);
  define(library,
         "dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, "
         "ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
         &dequantize_per_tensor);
  define(library,
         "dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, "
         "ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
         &dequantize_per_tensor_tensor);
  define(library,
         "dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, "
         "Tensor quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
         &dequantize_per_tensor_tensor2);
  define(library,
         "choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, "
         "Tensor)",
         &choose_qparams);
  define(library,
         "choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> "
         "(Tensor, Tensor)",
         &choose_qparams_symmetric);
}

void define_per_channel(torch::Library& library) {
  define(library,
         "quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, "
         "int quant_max, ScalarType dtype) -> Tensor",
         &quantize_per_channel);
  define(library,
         "dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, "
         "int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
         &dequantize_per_channel);
  define(library,
         "quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, "
         "ScalarType dtype, int group_size) -> Tensor",
         &quantize_per_channel_group);
  define(library,
         "dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, "
         "int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor",
         &dequantize_per_channel_group);
  const bool ours = define(library,
                           "fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, "
                           "int quant_min, int quant_max) -> Tensor",
                           &fake_quant_per_channel);
  if (ours) {
    library.impl("fake_quant_per_channel",
                 torch::dispatch(c10::DispatchKey::Autograd, &fake_quant_per_channel_autograd));
  }
}

void define_per_token(torch::Library& library) {
  define(library, "choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)",
         &choose_qparams_per_token);
  define(library, "_choose_qparams_per_token_asymmetric_impl(Tensor input, ScalarType dtype) -> (Tensor, Tensor)",
         &choose_qparams_per_token_asymmetric);
  define(library, "choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)",
         &choose_qparams_per_token_asymmetric);
  define(library,
         "quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, "
         "ScalarType dtype) -> Tensor",
         &quantize_per_token);
  define(library,
         "dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, "
         "ScalarType dtype, ScalarType output_dtype) -> Tensor",
         &dequantize_per_token);
}

}  // namespace

void register_quantized_decomposed() {
  // A fragment: the namespace may have an owner already, or get one.
  static torch::Library library(torch::Library::FRAGMENT, "quantized_decomposed", std::nullopt, __FILE__, __LINE__);
  static const bool defined = [] {
    define_per_tensor(library);
    define_per_channel(library);
    define_per_token(library);
    define(library, "convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor", &convert_element_type);
    return true;
  }();
  static_cast<void>(defined);
}

}  // namespace tl::lt

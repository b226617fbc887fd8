#include "diff/argument_rules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace tl {
namespace {

using Sizes = std::span<const std::int64_t>;

std::size_t row_of(std::int32_t value) { return static_cast<std::size_t>(value); }

/// How a value is computed or kept, not which.
constexpr std::array<std::string_view, 15> kImmaterial = {
    "cudnn_enable", "cudnn_enabled", "benchmark",          "deterministic", "allow_tf32",
    "layout",       "device",        "pin_memory",         "non_blocking",  "copy",
    "implicit",     "memory_format", "scale_grad_by_freq", "sparse",        "sparse_grad"};
/// Sizes that the shape of the output tells too.
constexpr std::array<std::string_view, 7> kSizes = {"size",        "sizes",      "shape", "output_size",
                                                    "split_sizes", "split_size", "end"};
constexpr std::array<std::string_view, 8> kDims = {"dim",  "dims", "axis",      "dim0",
                                                   "dim1", "dim2", "start_dim", "end_dim"};

/// Operands that no operation does without: shown as None where a host value stands for the tensor.
constexpr std::array<std::string_view, 5> kRequired = {"self", "other", "value", "input", "mat2"};

template <std::size_t kCount>
bool is_one_of(std::string_view name, const std::array<std::string_view, kCount>& names) {
  return std::ranges::find(names, name) != names.end();
}

std::optional<std::int64_t> integer_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The integers of a literal; nullopt where an element is something else.
std::optional<std::vector<std::int64_t>> integers_of(std::string_view text) {
  std::vector<std::int64_t> values;
  for (const auto element : list_elements(text)) {
    const auto value = integer_of(element);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

std::string list_text(const std::vector<std::int64_t>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

std::string number_text(double value) {
  std::array<char, 32> buffer;
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

/// `aten::slice` of the functional form too.
bool calls(const OpCall& call, std::string_view name) {
  const auto called = call.operator_name();
  return called.starts_with("aten::") &&
         (called.substr(6) == name || (called.ends_with("_copy") && called.substr(6, called.size() - 11) == name));
}

bool is_unset(std::string_view text) { return text == "None" || text == "[]"; }

/// A value that is shown by its type only, `f64[]`, or not known at all.
bool is_unknown(std::string_view text) { return text == "?" || (text.find('[') != 0 && text.ends_with(']')); }

std::string dtype_text(std::string_view text) {
  const auto number = integer_of(text);
  if (!number || *number < 0 || *number >= static_cast<std::int64_t>(DType::kNone)) return std::string(text);
  const auto& info = dtype_info(static_cast<DType>(*number));
  return info.dtype == DType::kNone ? std::string(text) : std::string(info.short_name);
}

std::int64_t rank_for_dims(const OpCall& call) {
  const bool of_output = calls(call, "unsqueeze") || calls(call, "stack");
  const auto rank = of_output ? call.sizes().size() : call.tensor_sizes("").size();
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(rank));
}

std::string dims_from_front(const OpArgument& argument, const OpCall& call) {
  const auto rank = rank_for_dims(call);
  auto dims = integers_of(argument.text);
  if (is_unset(argument.text) && argument.name == "dim") {
    dims.emplace();
    for (std::int64_t dim = 0; dim < rank; ++dim) dims->push_back(dim);
  }
  if (!dims) return argument.text;
  for (auto& dim : *dims) dim += dim < 0 ? rank : 0;
  if (argument.name == "dim") std::ranges::sort(*dims);  // of a reduction, in any order
  return list_text(*dims);
}

/// The extent of the dim that a slice or select goes along.
std::optional<std::int64_t> extent_of(const OpCall& call) {
  const auto* dim = call.find("dim");
  const auto sizes = call.tensor_sizes("");
  auto at = dim ? integer_of(dim->text) : std::optional<std::int64_t>(0);
  if (!at) return std::nullopt;
  if (*at < 0) *at += static_cast<std::int64_t>(sizes.size());
  if (*at < 0 || *at >= static_cast<std::int64_t>(sizes.size())) return std::nullopt;
  return sizes[static_cast<std::size_t>(*at)];
}

/// A bound of a slice, clamped as Python does, or an index of select.
std::string bound_from_front(const OpArgument& argument, const OpCall& call) {
  const auto extent = extent_of(call);
  auto bound = integer_of(argument.text);
  if (argument.text == "None" && argument.name == "start") bound = 0;
  if (argument.text == "None" && argument.name == "end") bound = extent;
  if (!bound) return argument.text;
  if (!extent) return std::to_string(*bound);
  if (*bound < 0) *bound += *extent;
  return std::to_string(argument.name == "index" ? *bound : std::clamp<std::int64_t>(*bound, 0, *extent));
}

/// Elements under a pooling kernel that nothing hangs over; nullopt where some may.
std::optional<std::int64_t> kernel_elements(const OpCall& call) {
  const auto* kernel = call.find("kernel_size");
  const auto* padding = call.find("padding");
  const auto* ceil = call.find("ceil_mode");
  const auto sizes = kernel ? integers_of(kernel->text) : std::nullopt;
  if (!sizes || sizes->size() < 2 || !padding || !ceil || ceil->text != "False") return std::nullopt;
  if (!is_unset(padding->text) && !same_literal(padding->text, "0")) return std::nullopt;
  std::int64_t product = 1;
  for (const auto size : *sizes) {
    if (__builtin_mul_overflow(product, size, &product)) return std::nullopt;
  }
  return product;
}

/// The value that None, or an empty list, stands for; nullopt where no formula is known.
std::optional<std::string> default_of(const OpArgument& argument, const OpCall& call) {
  const auto& name = argument.name;
  if (name == "scale" && call.find("query")) {  // scaled_dot_product_attention
    const auto query = call.tensor_sizes("query");
    if (query.empty() || query.back() <= 0) return std::nullopt;
    return number_text(1 / std::sqrt(static_cast<double>(query.back())));
  }
  if (name == "stride") {
    if (const auto* kernel = call.find("kernel_size"); kernel && !is_unset(kernel->text)) return kernel->text;
  }
  if (name == "divisor_override") {
    if (const auto count = kernel_elements(call)) return std::to_string(*count);
  }
  if (name == "value" && call.find("pad")) return "0";
  if (name == "correction") return "1";
  if (name == "step") return "1";
  if (name == "dtype" && call.dtype() != DType::kNone) return std::string(short_name(call.dtype()));
  if (name == "eps" && calls(call, "rms_norm")) {  // that of the element type
    if (call.dtype() == DType::kF32) return number_text(std::numeric_limits<float>::epsilon());
    if (call.dtype() == DType::kF64) return number_text(std::numeric_limits<double>::epsilon());
  }
  return std::nullopt;
}

}  // namespace

std::string_view OpCall::operator_name() const {
  return trace.strings[trace.instructions.op_name[row_of(trace.ops.instruction[op.index()])]];
}

const OpArgument* OpCall::find(std::string_view name) const {
  const auto found = std::ranges::find(arguments, name, &OpArgument::name);
  return found == arguments.end() ? nullptr : &*found;
}

Sizes OpCall::tensor_sizes(std::string_view name) const {
  const auto* argument = name.empty() ? (arguments.empty() ? nullptr : arguments.data()) : find(name);
  if (!argument) return {};
  const auto position = argument - arguments.data();
  const auto [begin, end] = edge_range(trace, op);
  for (auto edge = begin; edge < end; ++edge) {
    if (trace.edges.arg[edge] == position && trace.edges.parent[edge] >= 0)
      return trace.shapes[trace.ops.shape[row_of(trace.edges.parent[edge])]];
  }
  const auto& uses = trace.param_uses;
  const auto first = std::ranges::lower_bound(uses.op, static_cast<std::int32_t>(op.value));
  for (auto use = static_cast<std::size_t>(first - uses.op.begin());
       use < uses.op.size() && uses.op[use] == static_cast<std::int32_t>(op.value); ++use) {
    if (uses.arg[use] == position && uses.param[use] >= 0)
      return trace.shapes[trace.params.shape[row_of(uses.param[use])]];
  }
  return {};
}

ArgumentMeaning meaning_of(const OpArgument& argument, const OpCall& call) {
  const auto& text = argument.text;
  if (is_one_of(argument.name, kDims)) return {dims_from_front(argument, call), text};
  const bool slices = calls(call, "slice") || calls(call, "narrow");
  if (((argument.name == "start" || argument.name == "end") && slices) ||
      (argument.name == "index" && calls(call, "select"))) {
    return {bound_from_front(argument, call), text};
  }
  if (is_unset(text)) {
    const auto value = default_of(argument, call);
    return value ? ArgumentMeaning{*value, text + " (" + *value + ")"} : ArgumentMeaning{text, text};
  }
  if (argument.name.ends_with("dtype")) return {dtype_text(text), dtype_text(text)};
  return {text, text};
}

bool is_none(const OpArgument& argument) {
  return (argument.text == "none" || argument.text == "None") && !is_one_of(argument.name, kRequired);
}

bool is_immaterial(const OpArgument& ours, const OpArgument& theirs, const OpCall& reference, const OpCall& subject) {
  if (is_one_of(ours.name, kImmaterial)) return true;
  if (is_unknown(ours.text) || is_unknown(theirs.text)) return true;
  const bool unset = ours.text == "None" || theirs.text == "None";
  if (unset && is_one_of(ours.name, kRequired) && !reference.find("pad")) return true;
  const bool same_sizes = std::ranges::equal(reference.sizes(), subject.sizes());
  const bool spaced = ours.name == "end" && reference.find("steps");  // linspace: the end moves every element
  if (same_sizes && is_one_of(ours.name, kSizes) && !spaced) return true;
  if (ours.name != "momentum" && ours.name != "p") return false;
  const auto* mode = reference.find(ours.name == "p" ? "train" : "training");
  const auto* other = subject.find(ours.name == "p" ? "train" : "training");
  return mode && other && mode->text == "False" && other->text == "False";
}

}  // namespace tl

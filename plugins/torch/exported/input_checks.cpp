#include "exported/input_checks.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>

#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "archive/sym_expression.h"
#include "bridge/tensor_bridge.h"
#include "core/error.h"
#include "engine/given_inputs.h"

namespace tl::lt {
namespace {

std::string range_text(const ExportedRange& range) {
  return (range.min ? std::to_string(*range.min) : std::string("-inf")) + ".." +
         (range.max ? std::to_string(*range.max) : std::string("inf"));
}

class Checker {
 public:
  Checker(const ExportedProgram& program, c10::Device device, std::vector<std::string>& notes)
      : program_(program), device_(device), notes_(notes) {
    for (const auto& range : program.ranges) ranges_.emplace(range.symbol, &range);
  }

  c10::IValue leaf(const InputValue& value, const ExportedArgument& stated, const std::string& path) {
    if (const auto* ref = stated.ref()) {
      const auto& graph_value = program_.graph.values[ref->value];
      if (graph_value.kind == ExportedGraphValue::Kind::kTensor) return tensor(value, graph_value, path);
      return number(value, graph_value, path);
    }
    return constant(value, stated, path);
  }

  /// Sizes that are expressions, once all symbols have their values; a symbol that no plain size states is solved for.
  void expressions() {
    const auto value_of = [&](std::string_view symbol) -> std::optional<std::int64_t> {
      const auto found = symbols_.find(std::string(symbol));
      if (found == symbols_.end()) return std::nullopt;
      return found->second.value;
    };
    for (const auto& [place, expression, size] : expressions_) {
      std::vector<std::string> unknown;
      for (auto& symbol : symbols_of(expression)) {
        if (!value_of(symbol)) unknown.push_back(std::move(symbol));
      }
      const auto states = place + " = " + std::to_string(size) + ", the file states " + expression;
      if (unknown.size() == 1) {
        if (const auto solved = solve_expression(expression, unknown[0], size, value_of)) {
          compare(unknown[0] + " of " + place + " = " + std::to_string(size), *solved, unknown[0], std::nullopt);
        } else if (evaluate_expression(expression, [](std::string_view) { return std::optional<std::int64_t>(1); })) {
          misfit(states);
        }
      } else if (const auto stated = evaluate_expression(expression, value_of); stated && *stated != size) {
        misfit(states + " = " + std::to_string(*stated));
      }
    }
  }

  void finish() const {
    if (misfits_.empty()) return;
    std::string message = "the inputs do not fit what the file states:";
    for (const auto& line : misfits_) message += "\n  " + line;
    throw Error(ErrorCode::kInputMismatch, message, "give inputs as the file states them, or export the model again");
  }

 private:
  struct Symbol {
    std::int64_t value;
    std::string place;
  };
  struct Pending {
    std::string place;
    std::string expression;
    std::int64_t size;
  };

  void misfit(std::string line) { misfits_.push_back(std::move(line)); }

  /// A size or number that the file states as `stated`.
  void compare(const std::string& place, std::int64_t value, const std::string& expression,
               std::optional<std::int64_t> number) {
    if (expression.empty()) {
      if (number && *number != value)
        misfit(place + " = " + std::to_string(value) + ", the file states " + std::to_string(*number));
      return;
    }
    if (!is_symbol(expression)) {
      expressions_.push_back({place, expression, value});
      return;
    }
    const auto [known, fresh] = symbols_.try_emplace(expression, Symbol{value, place});
    if (!fresh && known->second.value != value) {
      misfit(place + " = " + std::to_string(value) + ", " + known->second.place + " = " +
             std::to_string(known->second.value) + ": both are " + expression + " in the file");
    }
    const auto range = ranges_.find(expression);
    if (range == ranges_.end()) return;
    if ((range->second->min && value < *range->second->min) || (range->second->max && value > *range->second->max)) {
      misfit(place + " = " + std::to_string(value) + ", allowed " + range_text(*range->second));
    }
  }

  c10::IValue tensor(const InputValue& value, const ExportedGraphValue& graph_value, const std::string& path) {
    const auto* host = std::get_if<HostTensor>(&value.data);
    if (host == nullptr) {
      misfit(path + ": " + describe(value) + " given, Tensor wanted");
      return {};
    }
    auto result = from_host_tensor(*host);
    if (!device_.is_cpu()) result = result.to(device_);
    if (graph_value.meta < 0) return result;
    const auto& meta = program_.graph.metas[static_cast<std::size_t>(graph_value.meta)];
    if (meta.dtype != host->dtype) {
      misfit(path + ": " + std::string(short_name(host->dtype)) + " given, the file states " +
             std::string(short_name(meta.dtype)));
    }
    if (meta.sizes.size() != host->sizes.size()) {
      misfit(path + ": " + std::to_string(host->sizes.size()) + " dimensions given, the file states " +
             std::to_string(meta.sizes.size()));
      return result;
    }
    for (std::size_t i = 0; i < host->sizes.size(); ++i) {
      compare(path + ".shape[" + std::to_string(i) + "]", host->sizes[i], meta.sizes[i].expression,
              meta.sizes[i].is_number() ? meta.sizes[i].value : std::nullopt);
    }
    return laid_out(std::move(result), meta, path);
  }

  /// The graph was made for the strides of its example: where they are plain numbers and another order of the axes, the
  /// input gets them.
  at::Tensor laid_out(at::Tensor tensor, const ExportedTensorMeta& meta, const std::string& path) {
    if (meta.layout != ExportedLayout::kStrided || meta.strides.size() != meta.sizes.size()) return tensor;
    std::vector<std::int64_t> strides;
    for (std::size_t i = 0; i < meta.strides.size(); ++i) {
      const auto& stride = meta.strides[i];
      if (!stride.is_number() || !meta.sizes[i].is_number() || !stride.value || *stride.value <= 0 ||
          meta.sizes[i].value != tensor.size(static_cast<std::int64_t>(i))) {
        return tensor;  // an expanded or varying size says nothing about the order of the axes
      }
      strides.push_back(*stride.value);
    }
    // Strides of axes of size 1 and of empty tensors mean nothing.
    bool differs = false;
    for (std::size_t i = 0; i < strides.size(); ++i) {
      differs |=
          tensor.size(static_cast<std::int64_t>(i)) > 1 && tensor.stride(static_cast<std::int64_t>(i)) != strides[i];
    }
    if (!differs || tensor.numel() == 0) return tensor;
    // The file alone says how far apart elements lie; what no slice of a real tensor leaves open is not believed.
    constexpr std::size_t kMostGaps = 64;
    if (at::detail::computeStorageNbytes(tensor.sizes(), strides, tensor.itemsize()) / kMostGaps > tensor.nbytes()) {
      return tensor;
    }
    auto laid = at::empty_strided(tensor.sizes(), strides, tensor.options());
    // Programs can see the gaps (as_strided): the same bytes there in every run.
    if (!laid.is_non_overlapping_and_dense()) std::memset(laid.storage().mutable_data(), 0, laid.storage().nbytes());
    laid.copy_(tensor);
    std::string text;
    for (const auto stride : strides) text += (text.empty() ? "" : ",") + std::to_string(stride);
    notes_.push_back("input " + path + " was laid out anew with the strides that the file recorded, [" + text + "]");
    return laid;
  }

  c10::IValue number(const InputValue& value, const ExportedGraphValue& graph_value, const std::string& path) {
    if (const auto* integer = std::get_if<std::int64_t>(&value.data)) {
      if (graph_value.kind == ExportedGraphValue::Kind::kSymFloat) return static_cast<double>(*integer);
      if (graph_value.kind == ExportedGraphValue::Kind::kSymInt) {
        compare(path, *integer, graph_value.expression, std::nullopt);
        return *integer;
      }
    }
    if (const auto* real = std::get_if<double>(&value.data);
        real && graph_value.kind == ExportedGraphValue::Kind::kSymFloat) {
      return *real;
    }
    if (const auto* boolean = std::get_if<bool>(&value.data);
        boolean && graph_value.kind == ExportedGraphValue::Kind::kSymBool) {
      return *boolean;
    }
    misfit(path + ": " + describe(value) + " given, a number wanted");
    return {};
  }

  c10::IValue constant(const InputValue& value, const ExportedArgument& stated, const std::string& path) {
    const auto differs = [&](const std::string& text) {
      misfit(path + ": " + describe(value) + " given, the file was exported with " + text + " and takes nothing else");
      return c10::IValue();
    };
    if (const auto* boolean = std::get_if<bool>(&stated.data)) {
      const auto* given = std::get_if<bool>(&value.data);
      return given && *given == *boolean ? c10::IValue(*boolean) : differs(*boolean ? "True" : "False");
    }
    if (const auto* integer = std::get_if<std::int64_t>(&stated.data)) {
      const auto* given = std::get_if<std::int64_t>(&value.data);
      return given && *given == *integer ? c10::IValue(*integer) : differs(std::to_string(*integer));
    }
    if (const auto* real = std::get_if<double>(&stated.data)) {
      const auto* given = std::get_if<double>(&value.data);
      return given && *given == *real ? c10::IValue(*real) : differs(text_of(*real));
    }
    if (const auto* text = std::get_if<std::string>(&stated.data)) {
      const auto* given = std::get_if<std::string>(&value.data);
      return given && *given == *text ? c10::IValue(*text) : differs("\"" + *text + "\"");
    }
    return std::holds_alternative<InputValue::None>(value.data) ? c10::IValue() : differs("None");
  }

  const ExportedProgram& program_;
  c10::Device device_;
  std::vector<std::string>& notes_;
  std::map<std::string, const ExportedRange*> ranges_;
  std::map<std::string, Symbol> symbols_;
  std::vector<Pending> expressions_;
  std::vector<std::string> misfits_;
};

}  // namespace

std::vector<c10::IValue> checked_inputs(const ExportedProgram& program, const ExportedInterface& interface,
                                        const std::vector<const InputValue*>& values, c10::Device device,
                                        std::vector<std::string>& notes) {
  TL_CHECK(values.size() == interface.leaves.size(), "one value a leaf");
  Checker checker(program, device, notes);
  std::vector<c10::IValue> result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& leaf = interface.leaves[i];
    const auto& stated = program.input_specs[leaf.input].argument;
    result.push_back(values[i] != nullptr ? checker.leaf(*values[i], stated, leaf.path) : c10::IValue());
  }
  checker.expressions();
  checker.finish();
  return result;
}

}  // namespace tl::lt

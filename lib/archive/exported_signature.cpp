#include <algorithm>
#include <array>
#include <string>
#include <unordered_set>
#include <utility>

#include "archive/entry_name.h"
#include "archive/exported_parts.h"

namespace tl {
namespace {

using InputKind = ExportedInputSpec::Kind;
using OutputKind = ExportedOutputSpec::Kind;

struct InputRow {
  std::string_view key;
  InputKind kind;
  std::string_view target;  ///< its member with the name of what it stands for; empty if it has none
};
constexpr std::array kInputs = {
    InputRow{"user_input", InputKind::kUserInput, ""},
    InputRow{"parameter", InputKind::kParameter, "parameter_name"},
    InputRow{"buffer", InputKind::kBuffer, "buffer_name"},
    InputRow{"tensor_constant", InputKind::kTensorConstant, "tensor_constant_name"},
    InputRow{"custom_obj", InputKind::kCustomObject, "custom_obj_name"},
    InputRow{"token", InputKind::kToken, ""},
    InputRow{"constant_input", InputKind::kConstantInput, "name"},
};

struct OutputRow {
  std::string_view key;
  OutputKind kind;
  std::string_view target;
};
constexpr std::array kOutputs = {
    OutputRow{"user_output", OutputKind::kUserOutput, ""},
    OutputRow{"loss_output", OutputKind::kLoss, ""},
    OutputRow{"buffer_mutation", OutputKind::kBufferMutation, "buffer_name"},
    OutputRow{"parameter_mutation", OutputKind::kParameterMutation, "parameter_name"},
    OutputRow{"user_input_mutation", OutputKind::kUserInputMutation, "user_input_name"},
    OutputRow{"gradient_to_parameter", OutputKind::kGradientToParameter, "parameter_name"},
    OutputRow{"gradient_to_user_input", OutputKind::kGradientToUserInput, "user_input_name"},
    OutputRow{"token", OutputKind::kToken, ""},
};

/// True for arguments that stand for the same value or constant; NaN equals itself.
bool same(const ExportedArgument& one, const ExportedArgument& other) {
  if (one.data.index() != other.data.index()) return false;
  if (one.ref()) return one.ref()->value == other.ref()->value;
  if (const auto* number = std::get_if<double>(&one.data)) {
    const double second = std::get<double>(other.data);
    return *number == second || (*number != *number && second != second);
  }
  if (const auto* number = std::get_if<std::int64_t>(&one.data)) return *number == std::get<std::int64_t>(other.data);
  if (const auto* flag = std::get_if<bool>(&one.data)) return *flag == std::get<bool>(other.data);
  if (const auto* text = std::get_if<std::string>(&one.data)) return *text == std::get<std::string>(other.data);
  return true;  // None; lists and the rest come from one place only
}

class SignatureReader {
 public:
  SignatureReader(ExportedReading& reading, const ExportedScope& scope)
      : reading_(reading), place_(reading.place), scope_(scope) {}

  void read(JsonRef json) {
    ExportedProgram& program = reading_.program;
    const JsonRef inputs = expect_array(place_, required(place_, json, "input_specs"), "input_specs");
    const JsonRef outputs = expect_array(place_, required(place_, json, "output_specs"), "output_specs");
    require_count("input", inputs.size(), program.graph.inputs.size());
    require_count("output", outputs.size(), program.graph.outputs.size());
    for (const JsonRef item : inputs.items()) read_input(item);
    for (const JsonRef item : outputs.items()) read_output(item);
    place_.part = {};
  }

 private:
  void require_count(std::string_view what, std::size_t stated, std::size_t held) const {
    if (stated == held) return;
    place_.damaged("the signature has " + std::to_string(stated) + ' ' + std::string(what) + "s, the graph has " +
                   std::to_string(held));
  }

  void require_same(std::string_view what, std::size_t index, const ExportedArgument& stated,
                    const ExportedArgument& held) const {
    if (same(stated, held)) return;
    place_.damaged("the signature's " + std::string(what) + ' ' + std::to_string(index) + " is " + shown(stated) +
                   ", the graph's is " + shown(held));
  }

  std::string shown(const ExportedArgument& argument) const {
    const ExportedRef* ref = argument.ref();
    return ref ? "value " + quoted_name(reading_.program.graph.values[ref->value].name) : "a constant";
  }

  void read_input(JsonRef json) {
    place_.part = "input specs";
    ExportedProgram& program = reading_.program;
    const JsonMember form = expect_union(place_, json, "input spec");
    const auto row = std::ranges::find(kInputs, form.key, &InputRow::key);
    if (row == kInputs.end()) {
      place_.fail(ErrorCode::kUnsupportedProgram, "an input of the unknown kind " + quoted_name(form.key));
    }
    ExportedInputSpec spec;
    spec.kind = row->kind;
    if (!row->target.empty())
      spec.target = expect_string(place_, required(place_, form.value, row->target), row->target);
    if (row->kind == InputKind::kBuffer) {
      spec.persistent = expect_bool(place_, required(place_, form.value, "persistent"), "persistent");
    }
    if (row->kind == InputKind::kConstantInput) {
      spec.argument = read_exported_argument(reading_, required(place_, form.value, "value"), scope_);
    } else {
      spec.argument = argument_of(form.value, row->kind == InputKind::kUserInput);
    }
    const std::size_t index = program.input_specs.size();
    require_same("input", index, spec.argument, program.graph.inputs[index]);
    require_input_kind(spec, index);
    if (spec.kind == InputKind::kBuffer) buffers_.insert(spec.target);
    if (spec.kind == InputKind::kParameter) parameters_.insert(spec.target);
    if (spec.kind == InputKind::kUserInput && spec.argument.ref()) user_inputs_.insert(spec.argument.ref()->value);
    program.input_specs.push_back(std::move(spec));
  }

  /// An Argument, or a TensorArgument, TokenArgument or CustomObjArgument, which are known by name.
  ExportedArgument argument_of(JsonRef spec, bool whole) {
    const JsonRef argument = required(place_, spec, "arg");
    if (whole) return read_exported_argument(reading_, argument, scope_);
    return {exported_value(reading_, scope_, expect_string(place_, required(place_, argument, "name"), "name"))};
  }

  void require_input_kind(const ExportedInputSpec& spec, std::size_t index) {
    const ExportedRef* ref = spec.argument.ref();
    if (spec.kind == InputKind::kConstantInput || !ref) return;
    ExportedGraphValue& value = reading_.program.graph.values[ref->value];
    using ValueKind = ExportedGraphValue::Kind;
    const bool tensor = value.kind == ValueKind::kTensor;
    const bool fits = spec.kind == InputKind::kUserInput ||
                      (spec.kind == InputKind::kCustomObject ? value.kind == ValueKind::kCustomObject : tensor);
    if (!fits) {
      place_.damaged("the signature's input " + std::to_string(index) + ", " + quoted_name(value.name) +
                     ", is of another kind in the graph");
    }
    if (spec.kind == InputKind::kToken) {
      value.kind = ValueKind::kToken;
      value.meta = -1;
    }
  }

  void read_output(JsonRef json) {
    place_.part = "output specs";
    ExportedProgram& program = reading_.program;
    const JsonMember form = expect_union(place_, json, "output spec");
    const auto row = std::ranges::find(kOutputs, form.key, &OutputRow::key);
    if (row == kOutputs.end()) {
      place_.fail(ErrorCode::kUnsupportedProgram, "an output of the unknown kind " + quoted_name(form.key));
    }
    ExportedOutputSpec spec;
    spec.kind = row->kind;
    if (!row->target.empty())
      spec.target = expect_string(place_, required(place_, form.value, row->target), row->target);
    spec.argument = argument_of(form.value, row->kind == OutputKind::kUserOutput);
    const std::size_t index = program.output_specs.size();
    require_same("output", index, spec.argument, program.graph.outputs[index]);
    require_target(spec);
    if (spec.kind == OutputKind::kToken) {
      ExportedGraphValue& value = program.graph.values[spec.argument.ref()->value];
      value.kind = ExportedGraphValue::Kind::kToken;
      value.meta = -1;
    }
    program.output_specs.push_back(std::move(spec));
  }

  /// What an output is written back to must be an input.
  void require_target(const ExportedOutputSpec& spec) const {
    bool known = true;
    switch (spec.kind) {
      case OutputKind::kBufferMutation:
        known = buffers_.contains(spec.target);
        break;
      case OutputKind::kParameterMutation:
      case OutputKind::kGradientToParameter:
        known = parameters_.contains(spec.target);
        break;
      case OutputKind::kUserInputMutation:
      case OutputKind::kGradientToUserInput: {
        const auto value = scope_.values.find(spec.target);
        known = value != scope_.values.end() && user_inputs_.contains(value->second);
        break;
      }
      default:
        break;
    }
    if (known) return;
    place_.damaged("an output is written back to " + quoted_name(spec.target) + ", which is no such input");
  }

  ExportedReading& reading_;
  ExportedPlace& place_;
  const ExportedScope& scope_;
  std::unordered_set<std::string> buffers_;
  std::unordered_set<std::string> parameters_;
  std::unordered_set<std::uint32_t> user_inputs_;
};

}  // namespace

void read_exported_signature(ExportedReading& reading, JsonRef json, const ExportedScope& scope) {
  SignatureReader(reading, scope).read(json);
}

}  // namespace tl

#include <algorithm>

#include "engine/bind_inputs.h"
#include "tensor/statistics.h"

namespace tl {
namespace {

using Kind = TypeNode::Kind;

class Recorder {
 public:
  std::vector<IoRecord> take() { return std::move(records_); }

  void visit(const InputValue& value, const TypeNode& type, const std::string& role, const std::string& source) {
    const auto& from = value.source.empty() ? source : value.source;
    if (const auto* list = std::get_if<InputValue::List>(&value.data)) {
      sequence(*list, type, role, from);
    } else if (const auto* tuple = std::get_if<InputValue::Tuple>(&value.data)) {
      sequence(tuple->elements, type, role, from);
    } else if (const auto* dict = std::get_if<InputValue::Dict>(&value.data)) {
      for (const auto& [key, element] : *dict) {
        const auto* text = std::get_if<std::string>(&key.data);
        visit(element, child_of(type, 1), role + "." + (text != nullptr ? *text : describe(key)), from);
      }
    } else {
      records_.push_back(leaf(value, role, from));
    }
  }

 private:
  static const TypeNode& child_of(const TypeNode& type, std::size_t index) {
    const TypeNode* node = &type;
    while (node->kind == Kind::kOptional) node = &node->children.at(0);
    if (node->kind == Kind::kList) index = 0;
    return index < node->children.size() ? node->children[index] : *node;
  }

  void sequence(const InputValue::List& elements, const TypeNode& type, const std::string& role,
                const std::string& source) {
    const TypeNode* node = &type;
    while (node->kind == Kind::kOptional) node = &node->children.at(0);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const auto name = i < node->field_names.size() ? node->field_names[i] : std::to_string(i);
      visit(elements[i], child_of(type, i), role + "." + name, source);
    }
  }

  static IoRecord leaf(const InputValue& value, const std::string& role, const std::string& source) {
    IoRecord record;
    record.role = role;
    record.source = source;
    const auto* tensor = std::get_if<HostTensor>(&value.data);
    if (tensor == nullptr) {
      record.scalar = describe(value);
      return record;
    }
    record.dtype = tensor->dtype;
    record.sizes = tensor->sizes;
    if (const auto stats = compute_stats(*tensor); stats.has_finite()) {
      record.min = stats.min;
      record.max = stats.max;
    }
    return record;
  }

  std::vector<IoRecord> records_;
};

std::string sizes_text(const TensorExpectation& expected) {
  if (!expected.sizes) return "[SIZES]";
  std::string text = "[";
  for (std::size_t i = 0; i < expected.sizes->size(); ++i) {
    const auto size = (*expected.sizes)[i];
    text += (i > 0 ? "," : "") + std::to_string(size < 0 ? 1 : size);
  }
  return text + "]";
}

/// The options for one argument; parts of containers are named by path.
void append_options(const TypeNode& type, const std::string& path, const TensorExpectation& expected,
                    std::string& line) {
  const auto add = [&](const std::string& option) { line += (line.empty() ? "" : " ") + option; };
  switch (type.kind) {
    case Kind::kTensor:
      return add("--random '" + path + ":" + std::string(short_name(expected.dtype.value_or(DType::kF32))) +
                 sizes_text(expected) + "'");
    case Kind::kInt:
      return add("--input " + path + "=INT");
    case Kind::kFloat:
    case Kind::kNumber:
      return add("--input " + path + "=NUMBER");
    case Kind::kBool:
      return add("--input " + path + "=true");
    case Kind::kString:
      return add("--input '" + path + "=\"TEXT\"'");
    case Kind::kDevice:
      return add("--input '" + path + "=\"cpu\"'");
    case Kind::kOptional:
    case Kind::kNone:
      return add("--input " + path + "=none");
    case Kind::kList:
      return append_options(type.children.at(0), path + ".0", {}, line);
    case Kind::kDict:
      return append_options(type.children.at(1), path + ".KEY", {}, line);
    case Kind::kTuple:
    case Kind::kNamedTuple:
      for (std::size_t i = 0; i < type.children.size(); ++i) {
        const auto name = i < type.field_names.size() ? type.field_names[i] : std::to_string(i);
        append_options(type.children[i], path + "." + name, {}, line);
      }
      return;
    default:
      return add("--input " + path + "=FILE");
  }
}

}  // namespace

std::vector<IoRecord> input_records(const Signature& signature, const BoundInputs& bound) {
  Recorder recorder;
  for (std::size_t i = 0; i < signature.arguments.size() && i < bound.arguments.size(); ++i) {
    const auto& argument = signature.arguments[i];
    if (bound.given[i]) recorder.visit(bound.arguments[i], argument.type, "input." + argument.name, {});
  }
  return recorder.take();
}

std::string example_options(const Signature& signature, std::span<const StatedInput> stated) {
  std::string line;
  for (const auto& argument : signature.arguments) {
    if (argument.has_default) continue;
    bool known = false;
    for (const auto& input : stated) {
      if (input.path != argument.name && !input.path.starts_with(argument.name + ".")) continue;
      known = true;
      TypeNode tensor;
      tensor.kind = Kind::kTensor;
      append_options(tensor, input.path, {.dtype = input.dtype, .sizes = input.sizes}, line);
    }
    if (!known) append_options(argument.type, argument.name, argument.expected, line);
  }
  return line;
}

}  // namespace tl

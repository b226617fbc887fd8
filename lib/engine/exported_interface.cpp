#include "engine/exported_interface.h"

#include <algorithm>

#include "core/error.h"
#include "core/float_text.h"
#include "engine/given_inputs.h"

namespace tl {
namespace {

using Kind = PytreeSpec::Kind;

bool is_user_input(const ExportedInputSpec& spec) {
  return spec.kind == ExportedInputSpec::Kind::kUserInput || spec.kind == ExportedInputSpec::Kind::kConstantInput;
}

std::string constant_text(const ExportedArgument& argument) {
  if (const auto* value = std::get_if<bool>(&argument.data)) return *value ? "True" : "False";
  if (const auto* value = std::get_if<std::int64_t>(&argument.data)) return std::to_string(*value);
  if (const auto* value = std::get_if<double>(&argument.data)) return float_text(*value);
  if (const auto* value = std::get_if<std::string>(&argument.data)) return "\"" + *value + "\"";
  return "None";
}

std::string step_name(const PytreeSpec& spec, std::size_t child) {
  const bool named = spec.kind == Kind::kDict || spec.kind == Kind::kNamedTuple || spec.kind == Kind::kObject;
  return named && child < spec.keys.size() ? spec.keys[child] : std::to_string(child);
}

class Builder {
 public:
  Builder(const ExportedProgram& program, const std::string& file, ExportedInterface& out)
      : program_(program), file_(file), out_(out) {
    for (std::size_t i = 0; i < program.input_specs.size(); ++i) {
      if (is_user_input(program.input_specs[i])) user_inputs_.push_back(i);
    }
  }

  void inputs() {
    const auto* call = program_.root_call();
    const bool shaped =
        call != nullptr && call->in_spec.children.size() == 2 && call->in_spec.num_leaves == user_inputs_.size();
    if (call != nullptr && call->in_spec.num_leaves != user_inputs_.size()) {
      throw Error(ErrorCode::kFileDamaged, file_ + ": the input tree has " + std::to_string(call->in_spec.num_leaves) +
                                               " leaves, the graph takes " + std::to_string(user_inputs_.size()));
    }
    if (shaped) {
      const auto& positional = call->in_spec.children[0];
      const auto& named = call->in_spec.children[1];
      for (std::size_t i = 0; i < positional.children.size(); ++i) {
        const auto& names = call->argument_names;
        argument(i < names.size() ? names[i] : name_of(positional.children[i], i), positional.children[i], false);
      }
      for (std::size_t i = 0; i < named.children.size(); ++i) argument(step_name(named, i), named.children[i], true);
    } else {
      for (std::size_t i = 0; i < user_inputs_.size(); ++i) {
        PytreeSpec leaf;
        leaf.num_leaves = 1;
        argument(name_of(leaf, i), leaf, false);
      }
    }
  }

  void outputs() {
    std::size_t count = 0;
    for (const auto& spec : program_.output_specs) {
      count += spec.kind == ExportedOutputSpec::Kind::kUserOutput || spec.kind == ExportedOutputSpec::Kind::kLoss;
    }
    const auto* call = program_.root_call();
    if (call != nullptr && call->out_spec.num_leaves != count) {
      throw Error(ErrorCode::kFileDamaged, file_ + ": the output tree has " +
                                               std::to_string(call->out_spec.num_leaves) +
                                               " leaves, the graph returns " + std::to_string(count));
    }
    if (call != nullptr) {
      output(call->out_spec, "output");
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        out_.output_roles.push_back(count == 1 ? "output" : "output." + std::to_string(i));
      }
    }
  }

  void text() {
    std::string text = "forward(";
    bool keywords = false;
    for (const auto& argument : out_.signature.arguments) {
      text += text.back() == '(' ? "" : ", ";
      if (argument.keyword_only && !keywords) text += "*, ";
      keywords |= argument.keyword_only;
      text += argument.type.text + " " + argument.name;
      if (argument.has_default) text += "=" + argument.default_text;
    }
    text += ")";
    const auto* call = program_.root_call();
    if (call != nullptr) {
      std::size_t leaf = 0;
      text += " -> " + output_text(call->out_spec, leaf);
    }
    out_.signature.method = "forward";
    out_.signature.text = text;
  }

 private:
  const ExportedArgument& leaf_argument(std::size_t input) const { return program_.input_specs[input].argument; }

  /// A name for a positional argument that the file names nowhere: what its leaves begin with.
  std::string name_of(const PytreeSpec& spec, std::size_t position) const {
    if (spec.num_leaves == 0 || next_ >= user_inputs_.size()) return "arg_" + std::to_string(position);
    const auto& input = program_.input_specs[user_inputs_[next_]];
    const auto* ref = input.argument.ref();
    const auto name = ref ? program_.graph.values[ref->value].name : input.target;
    if (spec.kind == Kind::kLeaf && !name.empty()) return name;
    return "arg_" + std::to_string(position);
  }

  void argument(const std::string& name, const PytreeSpec& spec, bool keyword) {
    SignatureArgument argument;
    argument.name = name;
    argument.keyword_only = keyword;
    bool constant = true;
    const auto first = next_;
    argument.type = type(spec, name, constant);
    // What the file fixes need not be given: it is the only value it takes.
    argument.has_default = constant;
    if (constant) {
      argument.default_text = spec.kind == Kind::kLeaf ? constant_text(leaf_argument(user_inputs_[first])) : "…";
    }
    if (spec.kind == Kind::kLeaf) expect(user_inputs_[first], argument);
    out_.arguments.push_back(spec);
    out_.signature.arguments.push_back(std::move(argument));
  }

  void expect(std::size_t input, SignatureArgument& argument) const {
    const auto* ref = leaf_argument(input).ref();
    const auto meta = ref ? program_.graph.values[ref->value].meta : -1;
    if (meta < 0) return;
    const auto& stated = program_.graph.metas[static_cast<std::size_t>(meta)];
    argument.expected.dtype = stated.dtype;
    std::vector<std::int64_t> sizes;
    for (const auto& size : stated.sizes) sizes.push_back(size.is_number() ? size.value.value_or(-1) : -1);
    argument.expected.sizes = std::move(sizes);
  }

  TypeNode type(const PytreeSpec& spec, const std::string& path, bool& constant) {
    TypeNode node;
    switch (spec.kind) {
      case Kind::kLeaf:
        return leaf(path, constant);
      case Kind::kNone:
        node.kind = TypeNode::Kind::kNone;
        node.text = "None";
        return node;
      case Kind::kTuple:
      case Kind::kList:
        node.kind = TypeNode::Kind::kTuple;
        node.text = spec.kind == Kind::kTuple ? "Tuple[" : "List[";
        break;
      case Kind::kDict:
      case Kind::kNamedTuple:
      case Kind::kObject:
        node.kind = TypeNode::Kind::kNamedTuple;
        node.text = spec.kind == Kind::kDict ? "Dict[" : spec.type.substr(spec.type.rfind('.') + 1) + "[";
        break;
    }
    for (std::size_t i = 0; i < spec.children.size(); ++i) {
      const auto step = step_name(spec, i);
      node.children.push_back(type(spec.children[i], path + "." + step, constant));
      if (node.kind == TypeNode::Kind::kNamedTuple) node.field_names.push_back(step);
      node.text += (i ? ", " : "") + (node.kind == TypeNode::Kind::kNamedTuple ? step + ": " : std::string()) +
                   node.children.back().text;
    }
    node.text += "]";
    return node;
  }

  template <typename T>
  static void fix(TypeNode& node, const T& value) {
    node.fixed = std::make_shared<const InputValue>(InputValue{value, "the file"});
  }

  TypeNode leaf(const std::string& path, bool& constant) {
    const auto input = user_inputs_[next_++];
    out_.leaves.push_back({path, input});
    const auto& argument = leaf_argument(input);
    TypeNode node;
    const auto set = [&](TypeNode::Kind kind, const char* text) {
      node.kind = kind;
      node.text = text;
    };
    if (const auto* ref = argument.ref()) {
      constant = false;
      using Value = ExportedGraphValue::Kind;
      switch (program_.graph.values[ref->value].kind) {
        case Value::kTensor:
          set(TypeNode::Kind::kTensor, "Tensor");
          break;
        case Value::kSymInt:
          set(TypeNode::Kind::kInt, "int");
          break;
        case Value::kSymFloat:
          set(TypeNode::Kind::kFloat, "float");
          break;
        case Value::kSymBool:
          set(TypeNode::Kind::kBool, "bool");
          break;
        default:
          set(TypeNode::Kind::kOther, "object");
          break;
      }
    } else if (const auto* boolean = std::get_if<bool>(&argument.data)) {
      set(TypeNode::Kind::kBool, "bool");
      fix(node, *boolean);
    } else if (const auto* integer = std::get_if<std::int64_t>(&argument.data)) {
      set(TypeNode::Kind::kInt, "int");
      fix(node, *integer);
    } else if (const auto* real = std::get_if<double>(&argument.data)) {
      set(TypeNode::Kind::kFloat, "float");
      fix(node, *real);
    } else if (const auto* text = std::get_if<std::string>(&argument.data)) {
      set(TypeNode::Kind::kString, "str");
      fix(node, *text);
    } else {
      set(TypeNode::Kind::kNone, "None");
    }
    return node;
  }

  void output(const PytreeSpec& spec, const std::string& path) {
    if (spec.kind == Kind::kLeaf) {
      out_.output_roles.push_back(path);
      return;
    }
    for (std::size_t i = 0; i < spec.children.size(); ++i) output(spec.children[i], path + "." + step_name(spec, i));
  }

  std::string output_text(const PytreeSpec& spec, std::size_t& leaf) const {
    if (spec.kind == Kind::kLeaf) {
      std::size_t at = 0;
      for (const auto& output : program_.output_specs) {
        if (output.kind != ExportedOutputSpec::Kind::kUserOutput && output.kind != ExportedOutputSpec::Kind::kLoss)
          continue;
        if (at++ != leaf) continue;
        ++leaf;
        const auto* ref = output.argument.ref();
        if (ref == nullptr) return output.argument.is_none() ? "None" : constant_text(output.argument);
        return program_.graph.values[ref->value].kind == ExportedGraphValue::Kind::kTensor ? "Tensor" : "int";
      }
      return "Tensor";
    }
    std::string text = spec.kind == Kind::kList ? "List[" : (spec.kind == Kind::kTuple ? "Tuple[" : "Dict[");
    if (spec.kind == Kind::kNamedTuple || spec.kind == Kind::kObject) {
      text = spec.type.substr(spec.type.rfind('.') + 1) + "[";
    }
    for (std::size_t i = 0; i < spec.children.size(); ++i) {
      text += i ? ", " : "";
      if (spec.kind != Kind::kList && spec.kind != Kind::kTuple) text += step_name(spec, i) + ": ";
      text += output_text(spec.children[i], leaf);
    }
    return text + "]";
  }

  const ExportedProgram& program_;
  const std::string& file_;
  ExportedInterface& out_;
  std::vector<std::size_t> user_inputs_;
  std::size_t next_ = 0;
};

}  // namespace

ExportedInterface interface_of(const ExportedProgram& program, const std::string& file) {
  ExportedInterface out;
  Builder builder(program, file, out);
  builder.inputs();
  builder.outputs();
  builder.text();
  return out;
}

void flatten_argument(const InputValue& value, const PytreeSpec& spec, const std::string& path,
                      std::vector<const InputValue*>& leaves) {
  if (spec.kind == Kind::kLeaf) {
    leaves.push_back(&value);
    return;
  }
  if (spec.kind == Kind::kNone) return;
  const auto misfit = [&] {
    throw Error(ErrorCode::kInputMismatch,
                path + ": " + describe(value) + " given, " + std::to_string(spec.children.size()) + " parts wanted");
  };
  std::vector<const InputValue*> parts;
  if (const auto* list = std::get_if<InputValue::List>(&value.data)) {
    for (const auto& element : *list) parts.push_back(&element);
  } else if (const auto* tuple = std::get_if<InputValue::Tuple>(&value.data)) {
    for (const auto& element : tuple->elements) parts.push_back(&element);
  } else if (const auto* dict = std::get_if<InputValue::Dict>(&value.data)) {
    for (std::size_t i = 0; i < spec.children.size(); ++i) {
      const auto key = step_name(spec, i);
      const auto found = std::ranges::find_if(*dict, [&](const auto& item) {
        const auto* text = std::get_if<std::string>(&item.first.data);
        const auto* number = std::get_if<std::int64_t>(&item.first.data);
        return (text != nullptr && *text == key) || (number != nullptr && std::to_string(*number) == key);
      });
      if (found == dict->end()) misfit();
      parts.push_back(&found->second);
    }
  }
  if (parts.size() != spec.children.size()) misfit();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    flatten_argument(*parts[i], spec.children[i], path + "." + step_name(spec, i), leaves);
  }
}

}  // namespace tl

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <unordered_map>

#include "archive/contents_parts.h"
#include "archive/exported_program_reader.h"
#include "archive/exported_scan.h"
#include "archive/sym_expression.h"
#include "core/error.h"

namespace tl {
namespace {

using InputKind = ExportedInputSpec::Kind;
using TensorKind = ModelTensor::Kind;

std::string real_text(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string without_call_number(const std::string& fqn) { return fqn.substr(0, fqn.rfind('@')); }

/// Numbers the symbols of a program in the order in which its inputs use them, so that two exports can be held against
/// each other: which number a symbol got in the file says nothing.
class Symbols {
 public:
  std::string text_of(const ExportedSymInt& size) {
    if (size.is_number()) return size.value ? std::to_string(*size.value) : "?";
    return renamed(size.expression);
  }

  std::string renamed(std::string_view expression) {
    std::string text;
    for (std::size_t i = 0; i < expression.size();) {
      std::size_t end = i;
      while (end < expression.size() && is_symbol(expression.substr(i, end - i + 1))) ++end;
      if (end == i) {
        text += expression[i++];
        continue;
      }
      const auto word = expression.substr(i, end - i);
      const bool called = end < expression.size() && expression[end] == '(';
      text += called ? std::string(word) : number(word);
      i = end;
    }
    return text;
  }

  std::vector<std::pair<std::string, std::string>> ranges(const std::vector<ExportedRange>& stated) const {
    std::vector<std::pair<std::string, std::string>> list(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      list[i].first = "s" + std::to_string(i);
      const auto found = std::ranges::find(stated, order_[i], &ExportedRange::symbol);
      const auto bound = [](const std::optional<std::int64_t>& value) { return value ? std::to_string(*value) : ""; };
      list[i].second = found == stated.end() ? ".." : bound(found->min) + ".." + bound(found->max);
    }
    return list;
  }

 private:
  std::string number(std::string_view symbol) {
    const auto [found, fresh] = numbers_.try_emplace(std::string(symbol), numbers_.size());
    if (fresh) order_.emplace_back(symbol);
    return "s" + std::to_string(found->second);
  }

  std::unordered_map<std::string, std::size_t> numbers_;
  std::vector<std::string> order_;
};

class ProgramContents {
 public:
  ProgramContents(const ExportedProgram& program, ModelContents& contents) : program_(program), contents_(contents) {}

  void fill(TensorDigests& digests) {
    add_tensors(digests);
    add_inputs();
    add_modules();
    add_calls(program_.graph, "");
    contents_.ranges = input_symbols_.ranges(program_.ranges);
  }

 private:
  static TensorKind kind_of(InputKind kind) {
    return kind == InputKind::kParameter ? TensorKind::kParameter
           : kind == InputKind::kBuffer  ? TensorKind::kBuffer
                                         : TensorKind::kConstant;
  }

  void add_tensors(TensorDigests& digests) {
    std::unordered_map<std::string_view, const ExportedPayload*> payloads;
    for (const auto& payload : program_.payloads) payloads.emplace(payload.name, &payload);
    for (const auto& spec : program_.input_specs) {
      const auto found = payloads.find(spec.target);
      const bool held = spec.kind == InputKind::kParameter || spec.kind == InputKind::kBuffer ||
                        spec.kind == InputKind::kTensorConstant;
      if (!held || found == payloads.end() || found->second->is_object) continue;
      const auto& payload = *found->second;
      if (payload.refusal.empty()) digests.want(contents_.tensors.size(), {payload.tensor});
      contents_.tensors.push_back({spec.target, {}, kind_of(spec.kind), payload.meta.dtype, payload.tensor.sizes, {}});
      if (const auto* ref = spec.argument.ref()) weight_of_[ref->value] = spec.target;
    }
  }

  void add_inputs() {
    contents_.has_inputs = true;
    for (const auto& spec : program_.input_specs) {
      if (spec.kind != InputKind::kUserInput && spec.kind != InputKind::kConstantInput) continue;
      ModelInput input;
      const auto* ref = spec.argument.ref();
      input.name = ref ? program_.graph.values[ref->value].name : spec.target;
      if (!ref) {
        input.type = "fixed to " + literal(spec.argument, program_.graph);
      } else if (const auto meta = program_.graph.values[ref->value].meta; meta >= 0) {
        const auto& stated = program_.graph.metas[static_cast<std::size_t>(meta)];
        input.type = "Tensor";
        input.dtype = stated.dtype;
        input.has_sizes = true;
        for (const auto& size : stated.sizes) input.sizes.push_back(input_symbols_.text_of(size));
      } else {
        input.type = "number";
      }
      contents_.inputs.push_back(std::move(input));
    }
  }

  void add_modules() {
    std::map<std::string, std::string> classes;
    for (const auto& stack : program_.module_stacks) {
      for (const auto& frame : stack) classes.try_emplace(frame.path, frame.class_name);
    }
    for (const auto& call : program_.module_calls) classes.try_emplace(without_call_number(call.fqn), "");
    for (const auto& [path, class_name] : classes) contents_.modules.push_back({path, class_name, {}});
    if (const auto root = classes.find(""); root != classes.end()) contents_.model_class = root->second;
  }

  void add_calls(const ExportedGraph& graph, const std::string& inside) {
    for (const auto& node : graph.nodes) {
      ModelCall call;
      call.label = inside + label_of(node, graph);
      call.target = node.target;
      call.func_name = func_name(node.target);
      place(node, call);
      add_output(node, graph, call);
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const auto& input = node.inputs[i];
        if (input.argument.graph()) continue;  // its calls follow
        const bool main = &graph == &program_.graph;
        call.arguments.emplace_back(input.name.empty() ? std::to_string(i) : input.name,
                                    literal(input.argument, graph, main));
      }
      contents_.calls.push_back(std::move(call));
      for (const auto& input : node.inputs) {
        if (const auto* nested = input.argument.graph()) {
          add_calls(*nested, inside + label_of(node, graph) + "/" + nested->name + "/");
        }
      }
    }
  }

  /// The name of the node; that of its first value in files which do not name nodes.
  static std::string label_of(const ExportedNode& node, const ExportedGraph& graph) {
    if (!node.name.empty()) return node.name;
    for (const auto& output : node.outputs) {
      if (const auto* ref = output.ref()) return graph.values[ref->value].name;
    }
    return func_name(node.target);
  }

  static std::string func_name(const std::string& target) {
    const auto qualified = qualified_operator(target);
    if (!qualified.empty()) return qualified.substr(qualified.find("::") + 2);
    return target.substr(target.rfind('.') + 1);
  }

  void place(const ExportedNode& node, ModelCall& call) const {
    if (node.modules >= 0) {
      const auto& stack = program_.module_stacks[static_cast<std::size_t>(node.modules)];
      if (!stack.empty()) {
        call.module = stack.back().path;
        call.class_name = stack.back().class_name;
        call.module_call = stack.back().call;
      }
    }
    if (node.source < 0) return;
    const auto& stack = program_.source_stacks[static_cast<std::size_t>(node.source)];
    if (stack.empty()) return;
    call.file = stack.back().file;
    call.line = stack.back().line;
  }

  void add_output(const ExportedNode& node, const ExportedGraph& graph, ModelCall& call) {
    for (const auto& output : node.outputs) {
      const auto* ref = output.ref();
      const auto meta = ref ? graph.values[ref->value].meta : -1;
      if (meta < 0) continue;
      const auto& stated = graph.metas[static_cast<std::size_t>(meta)];
      call.dtype = stated.dtype;
      for (const auto& size : stated.sizes) call.sizes.push_back(call_symbols_.text_of(size));
      return;
    }
  }

  std::string literal(const ExportedArgument& argument, const ExportedGraph& graph, bool main = true) const {
    struct Text {
      const ProgramContents& self;
      const ExportedGraph& graph;
      bool main;
      std::string operator()(std::monostate) const { return "None"; }
      std::string operator()(const ExportedRef& ref) const {
        const auto& value = graph.values[ref.value];
        if (value.kind == ExportedGraphValue::Kind::kTensor) {
          const auto weight = main ? self.weight_of_.find(ref.value) : self.weight_of_.end();
          return weight == self.weight_of_.end() ? "tensor" : "weight " + weight->second;
        }
        return value.kind == ExportedGraphValue::Kind::kCustomObject ? "object" : "?";
      }
      std::string operator()(bool value) const { return value ? "True" : "False"; }
      std::string operator()(std::int64_t value) const { return std::to_string(value); }
      std::string operator()(double value) const { return real_text(value); }
      std::string operator()(const std::complex<double>& value) const {
        return real_text(value.real()) + "+" + real_text(value.imag()) + "j";
      }
      std::string operator()(const std::string& value) const { return "\"" + value + "\""; }
      std::string operator()(const ExportedDType& value) const { return std::string(short_name(value.dtype)); }
      std::string operator()(ExportedMemoryFormat value) const {
        return "memory format " + std::to_string(static_cast<int>(value));
      }
      std::string operator()(ExportedLayout value) const { return "layout " + std::to_string(static_cast<int>(value)); }
      std::string operator()(const ExportedDevice& value) const {
        return value.type + (value.index ? ":" + std::to_string(*value.index) : "");
      }
      std::string operator()(const ExportedOperatorName& value) const { return value.name; }
      std::string operator()(const std::shared_ptr<const ExportedGraph>&) const { return "graph"; }
      std::string operator()(const std::shared_ptr<const ExportedList>& value) const {
        std::string text = "[";
        for (const auto& item : value->items) {
          text += (text.size() > 1 ? ", " : "") + self.literal(item, graph, main);
        }
        return text + "]";
      }
      std::string operator()(const std::shared_ptr<const ExportedDict>& value) const {
        std::string text = "{";
        for (const auto& [key, item] : value->items) {
          text += (text.size() > 1 ? ", " : "") + key + ": " + self.literal(item, graph, main);
        }
        return text + "}";
      }
    };
    return std::visit(Text{*this, graph, main}, argument.data);
  }

  const ExportedProgram& program_;
  ModelContents& contents_;
  Symbols input_symbols_;
  Symbols call_symbols_;
  std::unordered_map<std::uint32_t, std::string> weight_of_;  // by value of the program's graph
};

}  // namespace

ModelContents exported_contents(const ZipDirectory& zip, unsigned threads) {
  const auto names = exported_program_names(zip);
  if (names.size() > 1) {
    std::string listed;
    for (const auto& name : names) listed += (listed.empty() ? "" : ", ") + name;
    throw Error(ErrorCode::kUnsupportedKind,
                zip.file_name() + ": the archive holds " + std::to_string(names.size()) + " programs (" + listed +
                    "), and one is compared with one",
                "record the one that is meant with torchlens trace --level audit and compare the recording");
  }
  const auto program = read_exported_program(zip);
  ModelContents contents;
  TensorDigests digests(&zip);
  ProgramContents(program, contents).fill(digests);
  contents.kind = "exported program";
  contents.operator_form = OperatorForm::kExportedGraph;
  contents.dialect = program.dialect;
  contents.operators = operator_counts(scan_exported(program));
  digests.take(contents.tensors, threads);
  contents.dtype = main_dtype(contents.tensors);
  contents.details = joined_details({contents.kind, "torch " + program.torch_version,
                                     program.dialect.empty() ? "" : program.dialect + " dialect", contents.dtype});
  return contents;
}

}  // namespace tl

#include "archive/exported_arguments.h"

#include <memory>
#include <string>
#include <utility>

#include "archive/entry_name.h"
#include "archive/sympy_text.h"

namespace tl {
namespace {

std::string_view name_of(ExportedGraphValue::Kind kind) {
  switch (kind) {
    case ExportedGraphValue::Kind::kTensor:
      return "a tensor";
    case ExportedGraphValue::Kind::kSymInt:
      return "a SymInt";
    case ExportedGraphValue::Kind::kSymFloat:
      return "a SymFloat";
    case ExportedGraphValue::Kind::kSymBool:
      return "a SymBool";
    case ExportedGraphValue::Kind::kCustomObject:
      return "a custom object";
    case ExportedGraphValue::Kind::kToken:
      return "a token";
  }
  return "a value";
}

bool is_symbol(ExportedGraphValue::Kind kind) {
  return kind == ExportedGraphValue::Kind::kSymInt || kind == ExportedGraphValue::Kind::kSymFloat ||
         kind == ExportedGraphValue::Kind::kSymBool;
}

/// The text of a SymInt, SymFloat or SymBool of the schema: its expression, or its number where it has one.
std::string symbol_text(const ExportedPlace& place, JsonRef value) {
  const JsonMember kind = expect_union(place, value, "symbolic value");
  if (kind.key == "as_expr") {
    return sympy_text(expect_string(place, required(place, kind.value, "expr_str"), "expression"));
  }
  if (kind.value.is_integer()) return std::to_string(kind.value.integer());
  if (kind.value.is_bool()) return kind.value.boolean() ? "True" : "False";
  return std::to_string(expect_float(place, kind.value, kind.key));
}

}  // namespace

ExportedArgument ExportedArguments::use(JsonRef json) {
  defining_ = false;
  return read(json);
}

ExportedArgument ExportedArguments::define(JsonRef json, std::int32_t producer) {
  defining_ = true;
  producer_ = producer;
  return read(json);
}

ExportedArgument ExportedArguments::read(JsonRef json) {
  const ExportedPlace& place = reading_.place;
  const auto [kind, value] = expect_union(place, json, "argument");
  const auto tensor = [&](JsonRef item) { return named(item, "name", ValueKind::kTensor); };
  if (kind == "as_tensor") return tensor(value);
  if (kind == "as_none") return {};
  if (kind == "as_tensors") return list(kind, value, tensor);
  if (kind == "as_sym_int") return symbol(value, ValueKind::kSymInt);
  if (kind == "as_sym_float") return symbol(value, ValueKind::kSymFloat);
  if (kind == "as_sym_bool") return symbol(value, ValueKind::kSymBool);
  if (kind == "as_custom_obj") return custom_object(value);
  if (kind == "as_optional_tensor") return optional_tensor(value);
  if (kind == "as_optional_tensors") {
    return list(kind, value, [&](JsonRef item) { return optional_tensor(item); });
  }
  if (kind == "as_nested_tensors") {
    return list(kind, value, [&](JsonRef inner) { return list("as_nested_tensors", inner, tensor); });
  }
  if (defining_ && producer_ >= 0) {
    place.fail(ErrorCode::kUnsupportedProgram, "an output of kind " + quoted_name(kind));
  }
  if (kind == "as_sym_ints") return list(kind, value, [&](JsonRef item) { return symbol(item, ValueKind::kSymInt); });
  if (kind == "as_sym_floats") {
    return list(kind, value, [&](JsonRef item) { return symbol(item, ValueKind::kSymFloat); });
  }
  if (kind == "as_sym_bools") return list(kind, value, [&](JsonRef item) { return symbol(item, ValueKind::kSymBool); });
  if (kind == "as_graph") return graph_argument(value);
  if (kind == "as_string_to_argument") return dict(value);
  return constant(kind, value);
}

ExportedArgument ExportedArguments::constant(std::string_view kind, JsonRef value) {
  const ExportedPlace& place = reading_.place;
  const auto integer = [&](JsonRef item) { return ExportedArgument{expect_integer(place, item, kind)}; };
  const auto real = [&](JsonRef item) { return ExportedArgument{expect_float(place, item, kind)}; };
  const auto boolean = [&](JsonRef item) { return ExportedArgument{expect_bool(place, item, kind)}; };
  const auto string = [&](JsonRef item) { return ExportedArgument{std::string(expect_string(place, item, kind))}; };
  if (kind == "as_int") return integer(value);
  if (kind == "as_ints") return list(kind, value, integer);
  if (kind == "as_int_lists") return list(kind, value, [&](JsonRef item) { return list(kind, item, integer); });
  if (kind == "as_float") return real(value);
  if (kind == "as_floats") return list(kind, value, real);
  if (kind == "as_float_lists") return list(kind, value, [&](JsonRef item) { return list(kind, item, real); });
  if (kind == "as_bool") return boolean(value);
  if (kind == "as_bools") return list(kind, value, boolean);
  if (kind == "as_string") return string(value);
  if (kind == "as_strings") return list(kind, value, string);
  if (kind == "as_scalar_type") return {ExportedDType{exported_dtype(place, value)}};
  if (kind == "as_memory_format") return {exported_memory_format(place, value)};
  if (kind == "as_layout") return {exported_layout(place, value)};
  if (kind == "as_device") return {exported_device(place, value)};
  if (kind == "as_operator") return {ExportedOperatorName{std::string(expect_string(place, value, kind))}};
  if (kind == "as_complex") {
    const double re = expect_float(place, required(place, value, "real"), "real");
    return {std::complex<double>(re, expect_float(place, required(place, value, "imag"), "imag"))};
  }
  place.fail(ErrorCode::kUnsupportedProgram, "an argument of the unknown kind " + quoted_name(kind));
}

template <typename Item>
ExportedArgument ExportedArguments::list(std::string_view kind, JsonRef value, Item item) {
  expect_array(reading_.place, value, kind);
  auto items = std::make_shared<ExportedList>();
  items->items.reserve(value.size());
  for (const JsonRef element : value.items()) items->items.push_back(item(element));
  return {std::shared_ptr<const ExportedList>(std::move(items))};
}

ExportedArgument ExportedArguments::named(JsonRef object, std::string_view key, ValueKind kind) {
  const std::string_view name = expect_string(reading_.place, required(reading_.place, object, key), key);
  return {defining_ ? define_value(name, kind) : use_value(name, kind)};
}

// A list of SymInts holds plain numbers among them.
ExportedArgument ExportedArguments::symbol(JsonRef value, ValueKind kind) {
  const ExportedPlace& place = reading_.place;
  const JsonMember form = expect_union(place, value, "symbolic argument");
  if (form.key == "as_name") return named(value, "as_name", kind);
  if (form.key == "as_int") return {expect_integer(place, form.value, form.key)};
  if (form.key == "as_float") return {expect_float(place, form.value, form.key)};
  if (form.key == "as_bool") return {expect_bool(place, form.value, form.key)};
  place.fail(ErrorCode::kUnsupportedProgram, "a symbolic argument of the unknown kind " + quoted_name(form.key));
}

ExportedArgument ExportedArguments::optional_tensor(JsonRef value) {
  const JsonMember form = expect_union(reading_.place, value, "optional tensor");
  if (form.key == "as_none") return {};
  if (form.key != "as_tensor") {
    reading_.place.fail(ErrorCode::kUnsupportedProgram, "an optional tensor of kind " + quoted_name(form.key));
  }
  return named(form.value, "name", ValueKind::kTensor);
}

ExportedArgument ExportedArguments::custom_object(JsonRef value) {
  const ExportedPlace& place = reading_.place;
  const std::string_view name = expect_string(place, required(place, value, "name"), "name");
  const std::string_view type = expect_string(place, required(place, value, "class_fqn"), "class_fqn");
  // Objects that are written into a call have no input of the graph; their name is that of a payload.
  const bool literal = !defining_ && graph_ && name.starts_with("_custom_obj_") && !scope_.values.contains(name);
  const ExportedArgument argument = literal ? ExportedArgument{define_value(name, ValueKind::kCustomObject)}
                                            : named(value, "name", ValueKind::kCustomObject);
  if (graph_ && (defining_ || literal)) graph_->values[argument.ref()->value].class_name = type;
  return argument;
}

ExportedArgument ExportedArguments::graph_argument(JsonRef value) {
  const ExportedPlace& place = reading_.place;
  if (!graph_ || defining_) place.damaged("a graph where a value is expected");
  const std::string_view name = expect_string(place, required(place, value, "name"), "name");
  auto graph = std::make_shared<const ExportedGraph>(
      read_exported_subgraph(reading_, required(place, value, "graph"), name, depth_ + 1));
  return {std::move(graph)};
}

ExportedArgument ExportedArguments::dict(JsonRef value) {
  auto items = std::make_shared<ExportedDict>();
  for (const JsonMember member : expect_object(reading_.place, value, "as_string_to_argument").members()) {
    items->items.emplace_back(member.key, read(member.value));
  }
  return {std::shared_ptr<const ExportedDict>(std::move(items))};
}

ExportedRef ExportedArguments::define_value(std::string_view name, ValueKind kind) {
  const ExportedPlace& place = reading_.place;
  TL_CHECK(graph_ && defined_, "values are defined in graphs");
  if (name.empty()) place.damaged("a value without a name");
  const ExportedRef ref{static_cast<std::uint32_t>(graph_->values.size())};
  if (!defined_->values.try_emplace(name, ref.value).second) {
    place.damaged("value " + quoted_name(name) + " is defined twice");
  }
  ExportedGraphValue value;
  value.name = name;
  value.kind = kind;
  value.producer = defining_ ? producer_ : -1;
  if (kind == ValueKind::kTensor) {
    const auto meta = scope_.metas.find(name);
    if (meta != scope_.metas.end()) value.meta = meta->second;
  } else if (is_symbol(kind)) {
    const auto symbol = scope_.symbols.find(name);
    if (symbol != scope_.symbols.end()) value.expression = symbol_text(place, symbol->second);
  }
  graph_->values.push_back(std::move(value));
  return ref;
}

// Lists of mixed values are written as tensors whatever they hold, so only the reverse is a contradiction.
ExportedRef ExportedArguments::use_value(std::string_view name, ValueKind kind) {
  const ExportedRef ref = exported_value(reading_, scope_, name);
  const ExportedGraph& graph = graph_ ? *graph_ : reading_.program.graph;
  const ValueKind defined = graph.values[ref.value].kind;
  if (defined != kind && kind != ValueKind::kTensor) {
    reading_.place.damaged("value " + quoted_name(name) + " is used as " + std::string(name_of(kind)) + " and is " +
                           std::string(name_of(defined)));
  }
  return ref;
}

ExportedRef exported_value(const ExportedReading& reading, const ExportedScope& scope, std::string_view name) {
  const auto found = scope.values.find(name);
  if (found != scope.values.end()) return {found->second};
  const bool stated = scope.metas.contains(name) || scope.symbols.contains(name);
  reading.place.damaged("value " + quoted_name(name) + (stated ? " is used before it is defined" : " is not defined"));
}

ExportedArgument read_exported_argument(ExportedReading& reading, JsonRef json, const ExportedScope& scope) {
  return ExportedArguments(reading, scope).use(json);
}

}  // namespace tl

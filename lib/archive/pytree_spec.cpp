#include "archive/pytree_spec.h"

#include <utility>

#include "archive/entry_name.h"
#include "archive/exported_json.h"
#include "archive/exported_program_reader.h"
#include "archive/limits.h"
#include "core/float_text.h"

namespace tl {
namespace {

using Kind = PytreeSpec::Kind;

JsonLimits spec_limits() {
  JsonLimits limits;
  limits.bytes = limits::kProgramStringBytes;
  limits.depth = limits::kPytreeJsonDepth;
  limits.string_bytes = limits::kProgramStringBytes;
  return limits;
}

Kind kind_of(std::string_view type) {
  if (type == "builtins.tuple" || type == "torch.Size") return Kind::kTuple;
  if (type == "builtins.list" || type == "collections.deque") return Kind::kList;
  if (type == "builtins.dict" || type == "collections.OrderedDict" || type == "collections.defaultdict") {
    return Kind::kDict;
  }
  if (type == "collections.namedtuple") return Kind::kNamedTuple;
  return type == "builtins.NoneType" || type == "NoneType" ? Kind::kNone : Kind::kObject;
}

/// A key of a dict as text: `x`, `3`, `2.5`, `True`; an enum by its name.
std::string key_text(const ExportedPlace& place, JsonRef key) {
  if (key.is_string()) return std::string(key.string());
  if (key.is_integer()) return std::to_string(key.integer());
  if (key.is_bool()) return key.boolean() ? "True" : "False";
  if (key.is_null()) return "None";
  if (key.is_object()) {
    if (const JsonRef name = optional_member(place, key, "name"); name && name.is_string()) {
      return std::string(name.string());
    }
    return std::string(key.text());
  }
  return key.is_array() ? std::string(key.text()) : float_text(expect_float(place, key, "key"));
}

/// The names of children in a context: a list of keys (dict, ModelOutput), or `{"dict_context": keys, …}`
/// (defaultdict). Empty for another form.
std::vector<std::string> keys_in(const ExportedPlace& place, JsonRef context) {
  if (context.is_object()) {
    const JsonRef keys = context.find("dict_context");
    return keys && keys.is_array() ? keys_in(place, keys) : std::vector<std::string>();
  }
  if (!context.is_array()) return {};

  std::vector<std::string> keys;
  keys.reserve(context.size());
  for (const JsonRef key : context.items()) keys.push_back(key_text(place, key));
  return keys;
}

class SpecReader {
 public:
  explicit SpecReader(std::string where) { place_.where = std::move(where); }

  PytreeSpec document(std::string_view json) {
    const JsonTape tape(json, place_.where, spec_limits());
    const JsonRef pair = expect_array(place_, tape.root(), "the tree specification");
    if (pair.size() != 2) place_.damaged("a tree specification of " + std::to_string(pair.size()) + " parts");
    constexpr std::int64_t kProtocol = 1;
    auto part = pair.items().begin();
    if (const std::int64_t protocol = expect_integer(place_, *part, "protocol"); protocol != kProtocol) {
      place_.fail(ErrorCode::kUnsupportedVersion,
                  "a tree specification of protocol " + std::to_string(protocol) + ", protocol 1 is read");
    }
    ++part;
    return spec(*part);
  }

 private:
  PytreeSpec spec(JsonRef json) {
    PytreeSpec result;
    const JsonRef type = optional_member(place_, json, "type");
    const JsonRef children = expect_array(place_, required(place_, json, "children_spec"), "children_spec");
    if (!type) {
      if (children.size() != 0) place_.damaged("a leaf with " + std::to_string(children.size()) + " children");
      result.num_leaves = 1;
      return result;
    }
    result.type = expect_string(place_, type, "type");
    result.kind = kind_of(result.type);
    result.children.reserve(children.size());
    for (const JsonRef child : children.items()) {
      result.children.push_back(spec(child));
      result.num_leaves += result.children.back().num_leaves;
    }
    if (const JsonRef context = optional_member(place_, json, "context")) read_context(result, context);
    if (result.kind == Kind::kDict && result.keys.size() != result.children.size()) {
      place_.damaged("a " + result.type + " of " + std::to_string(result.children.size()) + " values with " +
                     std::to_string(result.keys.size()) + " keys");
    }
    return result;
  }

  /// A context is text: JSON for most types, the class of a named tuple as it is.
  void read_context(PytreeSpec& result, JsonRef context) {
    if (result.kind == Kind::kNamedTuple) {
      result.type = expect_string(place_, context, "context");
    } else if (result.kind == Kind::kDict || result.kind == Kind::kObject) {
      if (!context.is_string()) {
        take_keys(result, context);
        return;
      }
      if (result.kind == Kind::kObject && !context.string().starts_with('[') && !context.string().starts_with('{')) {
        return;  // a class may write what it likes
      }
      const JsonTape tape(context.string(), place_.where + ": context of " + quoted_name(result.type), spec_limits());
      take_keys(result, tape.root());
    }
  }

  /// A dataclass has `[names, names that are None]`; a class may have a context that looks like names and is none.
  void take_keys(PytreeSpec& result, JsonRef context) {
    const bool lists = context.is_array() && context.size() == 2 && (*context.items().begin()).is_array();
    if (result.kind == Kind::kObject && lists) context = *context.items().begin();
    result.keys = keys_in(place_, context);
    if (result.kind == Kind::kObject && result.keys.size() != result.children.size()) result.keys.clear();
  }

  ExportedPlace place_;
};

}  // namespace

PytreeSpec parse_pytree_spec(std::string_view json, const std::string& where) {
  return SpecReader(where).document(json);
}

void name_tuple_fields(PytreeSpec& spec, const std::unordered_map<std::string, std::vector<std::string>>& fields) {
  for (PytreeSpec& child : spec.children) name_tuple_fields(child, fields);
  if (spec.kind != Kind::kNamedTuple) return;
  const auto known = fields.find(spec.type);
  if (known != fields.end() && known->second.size() == spec.children.size()) spec.keys = known->second;
}

}  // namespace tl

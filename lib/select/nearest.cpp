#include "select/nearest.h"

#include <algorithm>

#include "core/text.h"
#include "select/selection.h"
#include "select/selector_node.h"
#include "select/term_marks.h"

namespace tl {
namespace {

using Kind = SelectorNode::Kind;

constexpr std::size_t kMaxPool = 5'000;

/// The first term, in the order of the text, that takes no Op although it is not negated.
const SelectorNode* first_empty(const SelectorNode& node, std::string_view source, const Trace& trace) {
  switch (node.kind) {
    case Kind::kNot:
    case Kind::kBare:
    case Kind::kLabel:
    case Kind::kWhere:
      return nullptr;
    case Kind::kMinus:
      return first_empty(node.children[0], source, trace);
    case Kind::kOr:
    case Kind::kAnd:
    case Kind::kFollowedBy:
    case Kind::kPrecededBy:
      for (const auto& child : node.children) {
        if (const auto* found = first_empty(child, source, trace)) return found;
      }
      return nullptr;
    default: {
      const auto ops = ops_of_term(node, source, trace);
      return std::ranges::find(ops, 1) == ops.end() ? &node : nullptr;
    }
  }
}

void add_distinct(std::vector<std::string>& pool, std::string_view name) {
  if (!name.empty() && pool.size() < kMaxPool && std::ranges::find(pool, name) == pool.end()) pool.emplace_back(name);
}

std::vector<std::size_t> instructions_that_ran(const Trace& trace) {
  Flags ran(trace.instructions.func_name.size(), 0);
  for (const auto instruction : trace.ops.instruction) {
    if (instruction >= 0) ran[static_cast<std::size_t>(instruction)] = 1;
  }
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < ran.size(); ++row) {
    if (ran[row] != 0) rows.push_back(row);
  }
  return rows;
}

/// What the argument of a term could have been.
std::vector<std::string> candidates(const SelectorNode& term, const Trace& trace) {
  std::vector<std::string> pool;
  switch (term.kind) {
    case Kind::kFunc:
      for (const auto row : instructions_that_ran(trace)) {
        add_distinct(pool, trace.strings[term.text.find(':') == std::string::npos ? trace.instructions.func_name[row]
                                                                                  : trace.instructions.op_name[row]]);
      }
      break;
    case Kind::kModule:
    case Kind::kInModule:
      for (const auto address : trace.modules.address) {
        if (pool.size() < kMaxPool) pool.emplace_back(trace.strings[address]);
      }
      break;
    case Kind::kContains:
    case Kind::kRegex:
      for (const auto type : trace.layers.layer_type) add_distinct(pool, trace.strings[type]);
      break;
    default: {
      const auto kind = term.kind == Kind::kInput    ? OpKind::kInput
                        : term.kind == Kind::kOutput ? OpKind::kOutput
                                                     : OpKind::kBuffer;
      for (std::size_t op = 0; op < trace.num_ops(); ++op) {
        if (static_cast<OpKind>(trace.ops.kind[op]) == kind) add_distinct(pool, trace.strings[trace.ops.address[op]]);
      }
    }
  }
  return pool;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// A few of the candidates where none is close.
std::string some_of(std::vector<std::string> pool) {
  constexpr std::size_t kShown = 8;
  const auto all = pool.size();
  pool.resize(std::min(all, kShown));
  return listed(pool) + (all > kShown ? ", … (" + std::to_string(all) + ")" : "");
}

std::string_view noun(Kind kind) {
  switch (kind) {
    case Kind::kFunc:
      return "functions";
    case Kind::kModule:
    case Kind::kInModule:
      return "modules";
    case Kind::kInput:
      return "inputs";
    case Kind::kOutput:
      return "outputs";
    case Kind::kBuffer:
      return "buffers read";
    default:
      return "layer types";
  }
}

std::string hint_for(const SelectorNode& term, const Trace& trace) {
  const auto pool = candidates(term, trace);
  if (pool.empty()) return "the recording has no " + std::string(noun(term.kind));
  if (std::ranges::find(pool, term.text) != pool.end()) {
    const bool called = term.kind == Kind::kModule || term.kind == Kind::kInModule;
    return term.text + (called ? " was never called, or computed nothing" : " is there, but no op is of it");
  }
  if (const auto close = did_you_mean(term.text, pool); !close.empty()) return "did you mean " + listed(close) + "?";
  return "the " + std::string(noun(term.kind)) + " are " + some_of(pool);
}

/// The innermost node that is empty although its parts are not, with its children alone as text.
struct EmptyPart {
  const SelectorNode* node = nullptr;
  std::string hint;
};

std::size_t rows_alone(const SelectorNode& node, const FieldContext& context, TableId table) {
  return select_rows(Selector::parse(selector_text(node)), context, table, NoMatch::kAllow).size();
}

EmptyPart empty_part(const Selector& selector, const FieldContext& context, TableId table) {
  EmptyPart found{&selector.root(), {}};
  for (bool deeper = true; deeper;) {
    deeper = false;
    found.hint.clear();
    const auto kind = found.node->kind;
    if (kind != Kind::kAnd && kind != Kind::kOr && kind != Kind::kMinus) break;
    for (const auto& child : found.node->children) {
      const auto rows = rows_alone(child, context, table);
      found.hint += (found.hint.empty() ? "alone, " : ", ") + selector_text(child) + " takes " + std::to_string(rows);
      const bool subtracted = kind == Kind::kMinus && &child != found.node->children.data();
      if (rows > 0 || subtracted || deeper) continue;
      found.node = &child;
      deeper = true;
      break;
    }
  }
  return found;
}

void collect_fields(const Expression& expression, std::vector<std::string>& names) {
  if (expression.kind == Expression::Kind::kField) add_distinct(names, expression.text);
  for (const auto& child : expression.children) collect_fields(child, names);
}

/// What to type to see why a part that is neither a name nor made of parts is empty.
std::string hint_for_condition(const SelectorNode& node, const FieldContext& context, TableId table) {
  if (node.kind == Kind::kWhere) {
    std::vector<std::string> names;
    if (table == TableId::k_ops) names.emplace_back("label");
    collect_fields(node.where[0], names);
    std::string list;
    for (const auto& name : names) list += (list.empty() ? "" : ",") + name;
    return "torchlens query TRACE --table " + std::string(to_string(table)) + " --columns " + list +
           " shows what it is about";
  }
  if (node.kind == Kind::kBare && node.text == "ops.saved") {
    const auto& sample = context.trace().ops.sample;
    const bool sampled = std::ranges::any_of(sample, [](std::int32_t row) { return row >= 0; });
    if (sampled) return "no value was kept in full; where(evidence == \"sampled\") takes those that were sampled";
  }
  return "torchlens query TRACE shows what there is";
}

}  // namespace

Error nothing_matched(const Selector& selector, const FieldContext& context, TableId table) {
  const auto& trace = context.trace();
  const auto rows = num_rows(trace, table);
  const auto message = selector.text() + " matches 0 of " + std::to_string(rows) + " " + std::string(to_string(table));
  const auto* term = first_empty(selector.root(), selector.source(), trace);
  if (term == nullptr) {
    auto [node, hint] = empty_part(selector, context, table);
    if (hint.empty()) hint = hint_for_condition(*node, context, table);
    return selector_error(ErrorCode::kSiteNotFound, selector.source(), node->at, message, hint);
  }
  return selector_error(ErrorCode::kSiteNotFound, selector.source(), term->at, message, hint_for(*term, trace));
}

}  // namespace tl

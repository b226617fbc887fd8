#include "select/selection.h"

#include <algorithm>

#include "core/text.h"
#include "select/lookup.h"
#include "select/nearest.h"
#include "select/row_links.h"
#include "select/term_marks.h"
#include "select/where.h"

namespace tl {
namespace {

using Kind = SelectorNode::Kind;
using Marks = std::vector<std::uint16_t>;  ///< a row: 0 not taken, else 1 + the number of a term, or kTaken

/// Taken by no term: what a negation leaves. One more than Site::kNoTerm is out of range, so this stands for it.
constexpr std::uint16_t kTaken = Site::kNoTerm;

std::uint16_t mark_of(const SelectorNode& term) { return static_cast<std::uint16_t>(term.term + 1); }

class TableFields : public FieldSource {
 public:
  TableFields(const FieldContext& context, TableId table) : context_(context), fields_(fields_of(table)) {}
  bool get(std::size_t field, FieldValue& value) const override {
    fields_[field].get(context_, row, value);
    return true;
  }
  std::optional<BoundExpression::Named> find(std::string_view name) const {
    const auto found = std::ranges::find(fields_, name, &Field::name);
    if (found == fields_.end()) return std::nullopt;
    return BoundExpression::Named{static_cast<std::size_t>(found - fields_.begin()), found->type};
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& field : fields_) names.emplace_back(field.name);
    return names;
  }

  std::size_t row = 0;

 private:
  const FieldContext& context_;
  std::span<const Field> fields_;
};

class Evaluator {
 public:
  Evaluator(const Selector& selector, const FieldContext& context, NoMatch no_match)
      : selector_(selector), context_(context), trace_(context.trace()), no_match_(no_match) {}

  Marks evaluate(const SelectorNode& node, TableId table) const {
    switch (node.kind) {
      case Kind::kOr:
      case Kind::kAnd:
        return combined(node, table);
      case Kind::kMinus: {
        auto left = evaluate(node.children[0], table);
        const auto right = evaluate(node.children[1], table);
        for (std::size_t row = 0; row < left.size(); ++row) left[row] = right[row] != 0 ? 0 : left[row];
        return left;
      }
      case Kind::kNot: {
        auto marks = evaluate(node.children[0], table);
        for (auto& mark : marks) mark = mark != 0 ? 0 : kTaken;
        return marks;
      }
      case Kind::kWhere:
        return expression(node, table);
      case Kind::kBare:
      case Kind::kLabel:
        return key(node, table);
      case Kind::kFollowedBy:
      case Kind::kPrecededBy:
        return rows_of_ops(context_, table, relatives(node));
      default:
        return term(node, table);
    }
  }

 private:
  Marks combined(const SelectorNode& node, TableId table) const {
    auto marks = evaluate(node.children[0], table);
    for (std::size_t i = 1; i < node.children.size(); ++i) {
      const auto next = evaluate(node.children[i], table);
      for (std::size_t row = 0; row < marks.size(); ++row) {
        if (node.kind == Kind::kOr) {
          // A term says more than a negation.
          if (marks[row] == 0 || (marks[row] == kTaken && next[row] != 0)) marks[row] = next[row];
        } else if (marks[row] != 0) {
          marks[row] = next[row] == 0 || marks[row] == kTaken ? next[row] : marks[row];
        }
      }
    }
    return marks;
  }

  Marks expression(const SelectorNode& node, TableId table) const {
    TableFields source(context_, table);
    const BoundExpression::Names names{.table = to_string(table),
                                       .find = [&](std::string_view name) { return source.find(name); },
                                       .all = [&] { return source.names(); }};
    BoundExpression bound(node.where[0], selector_.source(), names);
    Marks marks(num_rows(trace_, table), 0);
    for (source.row = 0; source.row < marks.size(); ++source.row) {
      if (bound.evaluate(source) == LiveAnswer::kYes) marks[source.row] = mark_of(node);
    }
    return marks;
  }

  Marks term(const SelectorNode& node, TableId table) const {
    const bool by_module = node.kind == Kind::kModule || node.kind == Kind::kInModule;
    if (const auto module = by_module ? module_column(trace_, table) : std::nullopt) {
      return own_module(node, table, *module);
    }
    const auto flags = ops_of_term(node, selector_.source(), trace_);
    Marks ops(flags.size());
    for (std::size_t op = 0; op < ops.size(); ++op) ops[op] = flags[op] != 0 ? mark_of(node) : 0;
    return rows_of_ops(context_, table, ops);
  }

  /// module and in_module of a row that belongs to a module itself.
  Marks own_module(const SelectorNode& node, TableId table, ModuleColumn column) const {
    const auto pattern = module_pattern(node.text);
    const auto modules = node.kind == Kind::kInModule ? modules_in(trace_.strings, trace_.modules, pattern.address)
                                                      : modules_named(trace_.strings, trace_.modules, pattern.address);
    Marks marks(num_rows(trace_, table), 0);
    if (table == TableId::k_module_calls) {
      const auto calls = calls_of(trace_.module_calls, modules, pattern.call, node.kind == Kind::kInModule);
      for (std::size_t row = 0; row < marks.size(); ++row) marks[row] = calls[row] != 0 ? mark_of(node) : 0;
      return marks;
    }
    if (table == TableId::k_params) {
      for (std::size_t row = 0; row < marks.size(); ++row) {
        const auto places = places_of_param(trace_, row);
        if (std::ranges::any_of(places, [&](const ParamPlace& place) { return modules[place.module] != 0; }))
          marks[row] = mark_of(node);
      }
      return marks;
    }
    for (std::size_t row = 0; row < marks.size(); ++row) {
      const auto module = column.own ? static_cast<std::int64_t>(row) : (*column.column)[row];
      if (module >= 0 && modules[static_cast<std::size_t>(module)] != 0) marks[row] = mark_of(node);
    }
    return marks;
  }

  Marks key(const SelectorNode& node, TableId table) const {
    Marks ops(trace_.num_ops(), 0);
    auto found = node.kind == Kind::kLabel ? look_up_site(trace_, node.text) : look_up_rows(trace_, node.text);
    if (!found.ok()) {
      const auto& error = found.error();
      if (error.code == ErrorCode::kLookupNotFound && no_match_ == NoMatch::kAllow)
        return Marks(num_rows(trace_, table), 0);
      auto shown = selector_error(error.code, selector_.source(), node.at, error.message, error.hint);
      if (!error.note.empty()) shown.note += "\n" + error.note;
      throw shown;
    }
    Marks rows(num_rows(trace_, table), 0);
    bool own = false;
    for (const auto& record : found.value()) {
      if (table_of(record.kind) == table) {
        rows[record.row] = mark_of(node);
        own = true;
      } else {
        for (const auto op : ops_of_found(trace_, record)) ops[op] = mark_of(node);
      }
    }
    return own ? rows : rows_of_ops(context_, table, ops);
  }

  /// Ops with a descendant (followed_by) or an ancestor (preceded_by) in the inner selection.
  Marks relatives(const SelectorNode& node) const {
    const auto inner = evaluate(node.children[0], TableId::k_ops);
    Marks marks(inner.size(), 0);
    const bool up = node.kind == Kind::kFollowedBy;
    const auto step = [&](std::size_t op) {
      const auto [begin, end] = edge_range(trace_, OpId{static_cast<std::uint32_t>(op)});
      for (auto edge = begin; edge < end; ++edge) {
        const auto parent = static_cast<std::size_t>(trace_.edges.parent[edge]);
        const auto from = up ? op : parent;
        if (inner[from] != 0 || marks[from] != 0) marks[up ? parent : op] = mark_of(node);
      }
    };
    // Parents come before their children, so one sweep is enough.
    for (std::size_t i = 0; i < inner.size(); ++i) step(up ? inner.size() - 1 - i : i);
    return marks;
  }

  const Selector& selector_;
  const FieldContext& context_;
  const Trace& trace_;
  NoMatch no_match_;
};

void collect_terms(const SelectorNode& node, std::vector<std::string>& terms) {
  if (node.is_term()) {
    if (terms.size() <= node.term) terms.resize(node.term + 1);
    terms[node.term] = selector_text(node);
  }
  for (const auto& child : node.children) collect_terms(child, terms);
}

}  // namespace

std::vector<std::string> term_texts(const Selector& selector) {
  std::vector<std::string> terms;
  collect_terms(selector.root(), terms);
  return terms;
}

std::string Selection::key(const Trace& trace, const Site& site) { return op_label(trace, site.op); }

std::vector<SelectedRow> select_rows(const Selector& selector, const FieldContext& context, TableId table,
                                     NoMatch no_match) {
  const auto marks = Evaluator(selector, context, no_match).evaluate(selector.root(), table);
  std::vector<SelectedRow> rows;
  for (std::size_t row = 0; row < marks.size(); ++row) {
    if (marks[row] == 0) continue;
    const auto term = marks[row] == kTaken ? Site::kNoTerm : static_cast<std::uint16_t>(marks[row] - 1);
    rows.push_back({static_cast<std::uint32_t>(row), term});
  }
  if (rows.empty() && no_match == NoMatch::kRefuse) throw nothing_matched(selector, context, table);
  return rows;
}

Selection resolve(const Selector& selector, const Trace& trace, NoMatch no_match) {
  const FieldContext context(trace);
  Selection selection;
  selection.selector = selector.text();
  selection.terms = term_texts(selector);
  for (const auto& [row, term] : select_rows(selector, context, TableId::k_ops, no_match)) {
    selection.sites.push_back({OpId{row}, term});
  }
  return selection;
}

}  // namespace tl

#include "select/live_selector.h"

#include <algorithm>
#include <array>
#include <vector>

#include "select/collections.h"
#include "select/fields.h"
#include "select/glob.h"
#include "select/op_facts.h"
#include "select/selector_node.h"
#include "select/term_marks.h"
#include "select/where.h"

namespace tl {
namespace {

using Kind = SelectorNode::Kind;

struct LiveField {
  std::string_view name;
  void (*get)(const EventRow&, FieldValue&);
};
constexpr LiveField kLiveFields[] = {
#define TL_LIVE_FIELD(name, ...) {name, __VA_ARGS__},
    TL_LIVE_FIELDS(TL_LIVE_FIELD)
#undef TL_LIVE_FIELD
};
/// Number of a field of ops that is known only later.
constexpr std::size_t kLaterField = std::size(kLiveFields);

class EventFields : public FieldSource {
 public:
  explicit EventFields(EventRow row) : row_(row) {}
  bool get(std::size_t field, FieldValue& value) const override {
    if (field >= kLaterField) return false;
    kLiveFields[field].get(row_, value);
    return true;
  }

 private:
  EventRow row_;
};

std::optional<BoundExpression::Named> find_live(std::string_view name) {
  const auto* field = find_field(TableId::k_ops, name);
  if (field == nullptr) return std::nullopt;
  const auto* live = std::ranges::find(kLiveFields, name, &LiveField::name);
  return BoundExpression::Named{static_cast<std::size_t>(live - std::begin(kLiveFields)), field->type};
}

BoundExpression bind_live(const SelectorNode& node, std::string_view source) {
  const BoundExpression::Names names{.table = "ops", .find = find_live, .all = [] {
                                       std::vector<std::string> all;
                                       for (const auto& field : fields_of(TableId::k_ops)) all.emplace_back(field.name);
                                       return all;
                                     }};
  return {node.where[0], source, names};
}

/// The return of a module call that is looked at; none while an Op runs.
struct Exit {
  std::uint32_t call = ModuleCallId::kNone;
  std::uint32_t output = OpId::kNone;
};

/// One node with what was worked out about instructions, modules and calls.
class Node {
 public:
  Node(const SelectorNode& parsed, std::string_view source) : parsed_(&parsed), kind_(parsed.kind), text_(parsed.text) {
    if (kind_ == Kind::kWhere) where_.push_back(bind_live(parsed, source));
    if (kind_ == Kind::kRegex) (void)ops_of_term(parsed, source, Trace{});  // refuses bad patterns before the run
    if (kind_ == Kind::kFollowedBy || kind_ == Kind::kPrecededBy) Node(parsed.children[0], source);
    if (parsed.is_term()) return;
    for (const auto& child : parsed.children) children_.emplace_back(child, source);
  }

  LiveAnswer answer(const Capture& capture, std::uint32_t event, Exit exit) {
    switch (kind_) {
      case Kind::kOr:
        return joined(LiveAnswer::kYes, capture, event, exit);
      case Kind::kAnd:
        return joined(LiveAnswer::kNo, capture, event, exit);
      case Kind::kMinus: {
        const auto left = children_[0].answer(capture, event, exit);
        if (left == LiveAnswer::kNo) return left;
        const auto right = negated(children_[1].answer(capture, event, exit));
        return right == LiveAnswer::kYes ? left : right;
      }
      case Kind::kNot:
        return negated(children_[0].answer(capture, event, exit));
      default:
        return term(capture, event, exit);
    }
  }

  /// The first term below that is not decided during the run.
  const Node* unsettled(const Capture* capture) {
    for (auto& child : children_) {
      if (const auto* found = child.unsettled(capture)) return found;
    }
    if (!parsed_->is_term()) return nullptr;
    if (kind_ == Kind::kBare && capture != nullptr) settle_key(*capture);
    switch (kind_) {
      case Kind::kFunc:
      case Kind::kInModule:
      case Kind::kModule:
      case Kind::kInput:
      case Kind::kBuffer:
        return nullptr;
      case Kind::kWhere:
        return names_later_field(parsed_->where[0]) ? this : nullptr;
      case Kind::kLabel:
        return raw_label() ? nullptr : this;
      default:
        return this;
    }
  }

  std::string canonical() const { return selector_text(*parsed_); }

 private:
  struct RawLabel {
    std::string_view type;
    std::uint32_t event;
  };

  LiveAnswer joined(LiveAnswer deciding, const Capture& capture, std::uint32_t event, Exit exit) {
    auto result = negated(deciding);
    for (auto& child : children_) {
      const auto answer = child.answer(capture, event, exit);
      if (answer == deciding) return deciding;
      if (answer == LiveAnswer::kLater) result = LiveAnswer::kLater;
    }
    return result;
  }

  LiveAnswer term(const Capture& capture, std::uint32_t event, Exit exit) {
    if (kind_ == Kind::kBare) settle_key(capture);
    const auto& row = capture.events[event];
    switch (kind_) {
      case Kind::kFunc:
        return match_of(fits_instruction(capture, row.instruction));
      case Kind::kInModule:
        return match_of(in_call(capture, row.module_call));
      case Kind::kModule:
        return returned(capture, event, exit);
      case Kind::kWhere:
        return where_[0].evaluate(EventFields(EventRow{capture, row}));
      case Kind::kInput:
        return match_of(row.kind == OpKind::kInput && fits_role(capture, row));
      case Kind::kBuffer:
        return match_of(row.kind == OpKind::kBuffer && fits_role(capture, row));
      case Kind::kOutput:  // outputs are no events: the finished trace has them
        return LiveAnswer::kLater;
      case Kind::kLabel:
      case Kind::kBare:
        return label(capture, event);
      default:
        return LiveAnswer::kLater;
    }
  }

  bool fits_role(const Capture& capture, const CaptureEvent& row) const {
    return text_.empty() || role_fits(text_, capture.strings[EventRow::row(row.address)]);
  }

  bool fits_instruction(const Capture& capture, std::uint32_t instruction) {
    if (instruction == OpId::kNone) return false;
    if (instruction >= known_.size()) known_.resize(capture.instructions.op_name.size(), kUnknown);
    auto& known = known_[instruction];
    if (known == kUnknown) {
      known = instruction_fits(capture.strings, capture.instructions, instruction, text_) ? 1 : 0;
    }
    return known == 1;
  }

  bool names_module(const Capture& capture, std::uint32_t call) {
    if (modules_.size() != capture.modules.address.size()) {
      pattern_ = module_pattern(text_);
      modules_ = kind_ == Kind::kInModule && pattern_.call == 0
                     ? modules_in(capture.strings, capture.modules, pattern_.address)
                     : modules_named(capture.strings, capture.modules, pattern_.address);
    }
    const auto module = static_cast<std::size_t>(capture.module_calls.module[call]);
    return modules_[module] != 0 && (pattern_.call == 0 || capture.module_calls.call_index[call] == pattern_.call);
  }

  /// For each call the innermost one around it, itself included, that is named; none if there is none. Calls come after
  /// the one they were made in.
  std::int32_t named_around(const Capture& capture, std::uint32_t call) {
    const auto& calls = capture.module_calls;
    while (around_.size() < calls.module.size() && around_.size() <= call) {
      const auto row = static_cast<std::uint32_t>(around_.size());
      const auto parent = calls.parent_call[row];
      const auto outer = parent < 0 ? -1 : around_[static_cast<std::size_t>(parent)];
      around_.push_back(names_module(capture, row) ? static_cast<std::int32_t>(row) : outer);
    }
    return call < around_.size() ? around_[call] : -1;
  }

  bool in_call(const Capture& capture, std::uint32_t call) { return named_around(capture, call) >= 0; }

  /// Whether an event is what a named module returned.
  LiveAnswer returned(const Capture& capture, std::uint32_t event, Exit exit) {
    if (exit.call != ModuleCallId::kNone && exit.output == event && names_module(capture, exit.call))
      return LiveAnswer::kYes;
    const auto& calls = capture.module_calls;
    auto result = LiveAnswer::kNo;
    for (auto call = named_around(capture, capture.events[event].module_call); call >= 0;) {
      const auto row = static_cast<std::size_t>(call);
      const bool open = calls.end_op[row] < 0 && static_cast<std::uint32_t>(call) != exit.call;
      if (open) result = LiveAnswer::kLater;
      if (!open && calls.output_op[row] == static_cast<std::int64_t>(event)) return LiveAnswer::kYes;
      const auto parent = calls.parent_call[row];
      call = parent < 0 ? -1 : named_around(capture, static_cast<std::uint32_t>(parent));
    }
    return result;
  }

  /// A final label is decided later, but only of Ops of its type.
  LiveAnswer label(const Capture& capture, std::uint32_t event) {
    if (const auto raw = raw_label()) return match_of(raw->event == event);
    const auto types = types_of_label(text_);
    if (kind_ == Kind::kBare || types.empty()) return LiveAnswer::kLater;
    const auto instruction = capture.events[event].instruction;
    if (instruction == OpId::kNone) return LiveAnswer::kLater;
    if (instruction >= known_.size()) known_.resize(capture.instructions.op_name.size(), kUnknown);
    auto& known = known_[instruction];
    if (known == kUnknown) {
      const auto type = capture.strings[capture.instructions.layer_type[instruction]];
      known = std::ranges::find(types, type) != types.end() ? 1 : 0;
    }
    return known == 1 ? LiveAnswer::kLater : LiveAnswer::kNo;
  }

  /// relu_1_4_raw is the fourth event.
  std::optional<RawLabel> raw_label() const {
    constexpr std::string_view kSuffix = "_raw";
    std::string_view text = text_;
    if (!text.ends_with(kSuffix)) return std::nullopt;
    text.remove_suffix(kSuffix.size());
    const auto last = text.rfind('_');
    if (last == std::string_view::npos) return std::nullopt;
    const auto index = integer_from(text.substr(last + 1));
    if (!index || *index < 1) return std::nullopt;
    return RawLabel{text.substr(0, last), static_cast<std::uint32_t>(*index - 1)};
  }

  /// A key that is the address of a module or buffer, or the role of an input, becomes that term.
  void settle_key(const Capture& capture) {
    if (settled_) return;
    settled_ = true;
    if (!types_of_label(text_).empty() || is_glob(text_)) return;  // a label comes first
    const auto names_any = [&](std::string_view address) {
      const auto flags = modules_named(capture.strings, capture.modules, address);
      return std::ranges::find(flags, 1) != flags.end();
    };
    if (text_.starts_with("input.") || text_ == "input") {
      kind_ = Kind::kInput;
    } else if (names_any(module_pattern(text_).address)) {
      kind_ = Kind::kModule;
    } else if (const auto code = capture.strings.find(text_);
               code >= 0 && std::ranges::find(capture.buffers.address, code) != capture.buffers.address.end()) {
      kind_ = Kind::kBuffer;
    }
  }

  static bool names_later_field(const Expression& expression) {
    if (expression.kind == Expression::Kind::kField) {
      return std::ranges::find(kLiveFields, expression.text, &LiveField::name) == std::end(kLiveFields);
    }
    return std::ranges::any_of(expression.children, names_later_field);
  }

  static constexpr std::uint8_t kUnknown = 2;

  const SelectorNode* parsed_;
  Kind kind_;
  std::string text_;
  std::vector<Node> children_;
  std::vector<BoundExpression> where_;  ///< one for where
  bool settled_ = false;                ///< of keys
  ModulePattern pattern_;
  Flags modules_;
  std::vector<std::uint8_t> known_;   ///< by instruction: 0 no, 1 yes, kUnknown
  std::vector<std::int32_t> around_;  ///< by module call
};

}  // namespace

struct LiveSelector::State {
  explicit State(const Selector& parsed) : selector(parsed), root(selector.root(), selector.source()) {}
  Selector selector;  ///< keeps what the nodes point to
  Node root;
};

LiveSelector::LiveSelector(const Selector& selector) : state_(std::make_unique<State>(selector)) {}
LiveSelector::~LiveSelector() = default;

LiveAnswer LiveSelector::on_op(const Capture& capture, std::uint32_t event) {
  return state_->root.answer(capture, event, {});
}

LiveAnswer LiveSelector::on_module_exit(const Capture& capture, std::uint32_t module_call, std::uint32_t output) {
  if (output == OpId::kNone) return LiveAnswer::kNo;
  return state_->root.answer(capture, output, {module_call, output});
}

LiveAnswer LiveSelector::after_module_exit(const Capture& capture, std::uint32_t event, std::uint32_t module_call,
                                           std::uint32_t output) {
  return state_->root.answer(capture, event, {module_call, output});
}

std::optional<std::string> LiveSelector::first_unsettled_term(const Capture* capture) {
  const auto* found = state_->root.unsettled(capture);
  if (found == nullptr) return std::nullopt;
  return found->canonical();
}

}  // namespace tl

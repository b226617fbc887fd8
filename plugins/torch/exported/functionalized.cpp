#include <ATen/ATen.h>
#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "bridge/tensor_bridge.h"
#include "core/error.h"
#include "exported/lowering.h"

// Operators that write, as functionalisation left them: auto_functionalized and auto_functionalized_v2 call the
// operator on clones and return these behind its results. Semantics follow
// torch/_higher_order_ops/auto_functionalize.py of 2.13.
namespace tl::lt {
namespace {

struct StridedLayout {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
  std::int64_t reach = 0;  ///< elements of the storage up to the last one seen
  bool is_dense = false;   ///< sees all of its storage, each element once
};

/// nullopt where the file states it by symbols, or not in strides.
std::optional<StridedLayout> layout_of(const ExportedTensorMeta& meta) {
  const auto plain = [](const ExportedSymInt& number) { return number.is_number() && number.value.has_value(); };
  if (meta.layout != ExportedLayout::kStrided || meta.sizes.size() != meta.strides.size() || !plain(meta.offset) ||
      !std::ranges::all_of(meta.sizes, plain) || !std::ranges::all_of(meta.strides, plain)) {
    return std::nullopt;
  }
  StridedLayout layout;
  layout.offset = *meta.offset.value;
  std::int64_t last = layout.offset;
  bool is_empty = false;
  for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
    layout.sizes.push_back(*meta.sizes[i].value);
    layout.strides.push_back(*meta.strides[i].value);
    is_empty |= layout.sizes[i] == 0;
    std::int64_t step = 0;
    if (layout.sizes[i] < 0 || layout.strides[i] < 0 ||
        __builtin_mul_overflow(std::max<std::int64_t>(layout.sizes[i] - 1, 0), layout.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return std::nullopt;
    }
  }
  if (last == std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  layout.reach = is_empty ? 0 : last + 1;
  const auto elements = c10::multiply_integers(layout.sizes);
  layout.is_dense =
      layout.offset == 0 &&
      (elements <= 1 || at::empty_strided(layout.sizes, layout.strides, at::kMeta).is_non_overlapping_and_dense());
  return layout;
}

}  // namespace

/// One call while it is lowered.
class ExportedLowering::Functionalized {
 public:
  Functionalized(ExportedLowering& lowering, const ExportedNode& node, bool second_version, const NodePlace& place,
                 Scope& scope, Output& out)
      : lowering_(lowering), node_(node), second_version_(second_version), place_(place), scope_(scope), out_(out) {}

  void run() {
    const auto op = wrapped_operator();
    if (second_version_) clone_bases();
    std::vector<Input> inputs;
    for (const auto& argument : op.schema().arguments()) inputs.push_back(input_for(argument));
    Operands results;
    for (std::size_t i = 0; i < op.schema().returns().size(); ++i) results.push_back(lowering_.new_slot());
    lowering_.emit_operator(op, std::move(inputs), results, place_, out_);
    if (results.empty()) results.push_back(lowering_.literal(c10::IValue()).slot);
    results.insert(results.end(), clones_.begin(), clones_.end());
    lowering_.alias_outputs(node_, results, scope_, out_);
  }

 private:
  c10::OperatorHandle wrapped_operator() const {
    const auto* name =
        node_.inputs.empty() ? nullptr : std::get_if<ExportedOperatorName>(&node_.inputs[0].argument.data);
    const auto operator_name = name ? operator_name_of(name->name) : std::nullopt;
    const auto op = operator_name ? c10::Dispatcher::singleton().findSchema(*operator_name) : std::nullopt;
    if (!op)
      lowering_.refuse(node_, "wraps a function that this engine does not run", "export the model again without it");
    return *op;
  }

  /// The argument of the call under that name; nullptr if there is none.
  const ExportedArgument* find(const std::string& key) const {
    for (std::size_t i = 1; i < node_.inputs.size(); ++i) {
      if (node_.inputs[i].name == key) return &node_.inputs[i].argument;
    }
    return nullptr;
  }

  Input as_input(const ExportedArgument& argument, const c10::TypePtr& type) {
    return lowering_.input_of(node_, "operand", argument, c10::Argument("operand", type), place_, scope_, out_);
  }

  Input none() { return lowering_.literal(c10::IValue()); }

  std::uint32_t clone(const ExportedArgument& argument) {
    return clone_with_strides(argument.ref(), as_input(argument, c10::TensorType::get()));
  }

  Input as_strided(std::uint32_t slot, Input sizes, Input strides, Input offset) {
    return lowering_.input_at(lowering_.emit_aten(
        "aten::as_strided", "", {lowering_.input_at(slot), std::move(sizes), std::move(strides), std::move(offset)},
        place_, out_));
  }

  // clone_preserve_strides of torch/_prims_common: views of the clone are made by the strides of the original, so one
  // that is not dense is cloned with its gaps. Strides that the file states by symbols are taken to be dense.
  std::uint32_t clone_with_strides(const ExportedRef* ref, const Input& original) {
    const auto& graph = scope_.graph;
    const auto* value = ref ? &graph.values[ref->value] : nullptr;
    const auto* meta = value && value->meta >= 0 ? &graph.metas[static_cast<std::size_t>(value->meta)] : nullptr;
    const auto layout = meta ? layout_of(*meta) : std::nullopt;
    if (!layout || layout->is_dense) return lowering_.emit_aten("aten::clone", "", {original}, place_, out_);
    const auto view = [&](std::uint32_t slot, std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides,
                          std::int64_t offset) {
      return as_strided(slot, lowering_.literal(std::move(sizes)), lowering_.literal(std::move(strides)),
                        lowering_.literal(offset))
          .slot;
    };
    const auto whole = view(original.slot, {layout->reach}, {1}, 0);
    const auto copy = lowering_.emit_aten("aten::clone", "", {lowering_.input_at(whole)}, place_, out_);
    return view(copy, layout->sizes, layout->strides, layout->offset);
  }

  void clone_bases() {
    const auto* bases = find("_all_bases");
    if (bases == nullptr || bases->list() == nullptr) lowering_.fail(node_, "has no list _all_bases");
    for (const auto& base : bases->list()->items) clones_.push_back(base.is_none() ? none().slot : clone(base));
  }

  Input input_for(const c10::Argument& argument) {
    const auto* alias = argument.alias_info();
    if (alias != nullptr && alias->isWrite())
      return second_version_ ? view_argument(argument) : cloned_argument(argument);
    return plain_argument(argument);
  }

  Input plain_argument(const c10::Argument& argument) {
    if (const auto* given = find(argument.name())) {
      return lowering_.input_of(node_, argument.name(), *given, argument, place_, scope_, out_);
    }
    if (!argument.default_value()) lowering_.fail(node_, "gives no value for the argument '" + argument.name() + "'");
    return lowering_.literal(*argument.default_value());
  }

  static const c10::ListType* list_type(const c10::Argument& argument) {
    const auto& type = without_optional(*argument.type());
    return type.kind() == c10::TypeKind::ListType ? &type.expectRef<c10::ListType>() : nullptr;
  }

  /// First version: what is written is given itself.
  Input cloned_argument(const c10::Argument& argument) {
    const auto* given = find(argument.name());
    const auto* list = list_type(argument);
    if (list != nullptr && given != nullptr && given->list() != nullptr) {
      std::vector<Input> items;
      for (const auto& item : given->list()->items) {
        items.push_back(lowering_.input_at(clone(item)));
        clones_.push_back(items.back().slot);
      }
      return lowering_.list_of(items, list->getElementType(), place_, out_);
    }
    auto input = plain_argument(argument);
    if (given == nullptr) return input;
    if (input.tensor) input.slot = clone_with_strides(given->ref(), input);
    clones_.push_back(input.slot);
    return input;
  }

  /// Second version: what is written is a view of one of the bases, or stated by its looks alone.
  Input view_argument(const c10::Argument& argument) {
    if (const auto* list = list_type(argument)) return list_of_views(argument.name(), list->getElementType());
    if (const auto* dtype = find("_" + argument.name() + "_dtype")) return fresh(argument.name(), *dtype);
    return view(argument.name());
  }

  /// The view of a cloned base that a mutated argument was.
  Input view(const std::string& prefix) {
    const auto* index = find("_" + prefix + "_base_index");
    if (index == nullptr) lowering_.fail(node_, "does not say which base '" + prefix + "' is a view of");
    if (index->is_none()) return none();
    const auto* at = std::get_if<std::int64_t>(&index->data);
    if (at == nullptr || *at < 0 || static_cast<std::size_t>(*at) >= clones_.size()) {
      lowering_.fail(node_, "names a base of '" + prefix + "' that it does not list");
    }
    const auto base = clones_[static_cast<std::size_t>(*at)];
    if (find("_" + prefix + "_alias") != nullptr) {
      return lowering_.input_at(lowering_.emit_aten("aten::alias", "", {lowering_.input_at(base)}, place_, out_));
    }
    const auto optional = c10::OptionalType::create(c10::IntType::get());
    if (const auto* offset = find("_" + prefix + "_storage_offset")) {
      const auto* size = find("_" + prefix + "_size");
      const auto* stride = find("_" + prefix + "_stride");
      if (size == nullptr || stride == nullptr) {
        lowering_.fail(node_, "states an offset of '" + prefix + "' without size and stride");
      }
      const auto ints = c10::ListType::ofInts();
      return as_strided(base, as_input(*size, ints), as_input(*stride, ints), as_input(*offset, optional));
    }
    if (const auto* dim = find("_" + prefix + "_slice_dim")) {
      const auto* start = find("_" + prefix + "_slice_start");
      const auto* end = find("_" + prefix + "_slice_end");
      if (start == nullptr || end == nullptr)
        lowering_.fail(node_, "states a slice of '" + prefix + "' without its ends");
      return lowering_.input_at(lowering_.emit_aten("aten::slice", "Tensor",
                                                    {lowering_.input_at(base), as_input(*dim, c10::IntType::get()),
                                                     as_input(*start, optional), as_input(*end, optional)},
                                                    place_, out_));
    }
    return lowering_.input_at(base);
  }

  /// The tensor that an `out=` operator writes: only what it looks like is stated.
  Input fresh(const std::string& name, const ExportedArgument& dtype) {
    const auto* size = find("_" + name + "_size");
    const auto* stride = find("_" + name + "_stride");
    if (size == nullptr || stride == nullptr)
      lowering_.fail(node_, "states a dtype of '" + name + "' without size and stride");
    const auto ints = c10::ListType::ofInts();
    return lowering_.input_at(lowering_.emit_aten("aten::empty_strided", "",
                                                  {as_input(*size, ints), as_input(*stride, ints),
                                                   as_input(dtype, c10::OptionalType::create(c10::IntType::get())),
                                                   none(), lowering_.literal(lowering_.device_), none()},
                                                  place_, out_));
  }

  Input list_of_views(const std::string& prefix, const c10::TypePtr& element) {
    const auto* length = find("_" + prefix + "_length");
    if (length != nullptr && length->is_none()) return none();
    const auto* count = length ? std::get_if<std::int64_t>(&length->data) : nullptr;
    if (count == nullptr || *count < 0 || static_cast<std::size_t>(*count) > node_.inputs.size()) {
      lowering_.fail(node_, "does not say how many tensors '" + prefix + "' lists");
    }
    std::vector<Input> items;
    for (std::int64_t i = 0; i < *count; ++i) items.push_back(view(prefix + "_" + std::to_string(i)));
    return lowering_.list_of(items, element, place_, out_);
  }

  ExportedLowering& lowering_;
  const ExportedNode& node_;
  bool second_version_;
  const NodePlace& place_;
  Scope& scope_;
  Output& out_;
  Operands clones_;  ///< of the bases, or of what is written, in the order of the outputs
};

void ExportedLowering::lower_functionalized(const ExportedNode& node, bool second_version, const NodePlace& place,
                                            Scope& scope, Output& out) {
  Functionalized(*this, node, second_version, place, scope, out).run();
}

}  // namespace tl::lt

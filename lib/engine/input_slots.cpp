#include "engine/input_slots.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_set>

#include "core/text.h"

namespace tl {
namespace {

using Kind = TypeNode::Kind;
constexpr std::size_t kMaxElements = 1'000'000;  ///< numbers above are no element numbers
constexpr std::size_t kMaxTwoLists = 1'024;      ///< numbers that are split into two lists
constexpr std::size_t kMaxTried = 64;  ///< lengths of the last list that may fit: the leaves around it are few

const TypeNode& unwrapped(const TypeNode& type) {
  const TypeNode* node = &type;
  while (node->kind == Kind::kOptional) node = &node->children.at(0);
  return *node;
}

bool is_container(Kind kind) {
  return kind == Kind::kList || kind == Kind::kTuple || kind == Kind::kNamedTuple || kind == Kind::kDict;
}

std::optional<std::size_t> number_from(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value > kMaxElements)
    return std::nullopt;
  return value;
}

/// The type of part `key` of a container; nullptr, and a misfit, if it has no such part.
const TypeNode* part_type(const TypeNode& type, const std::string& name, std::string& key,
                          std::vector<std::string>& misfits) {
  if (type.kind == Kind::kDict) return &type.children.at(1);
  if (type.kind == Kind::kNamedTuple) {
    const auto field = std::ranges::find(type.field_names, key);
    if (field != type.field_names.end()) key = std::to_string(field - type.field_names.begin());
  }
  if (const auto number = number_from(key)) {
    key = std::to_string(*number);  // `00` is `0`
    if (type.kind == Kind::kList) return &type.children.at(0);
    if (*number < type.children.size()) return &type.children[*number];
  }
  auto text = name + "." + key + ": no such part of " + type.text;
  const auto close = did_you_mean(key, type.field_names, 1);
  if (!close.empty()) text += ", did you mean " + close[0] + "?";
  misfits.push_back(std::move(text));
  return nullptr;
}

InputSlot& part_of(InputSlot& slot, const std::string& key) {
  const auto [position, is_new] = slot.positions.emplace(key, slot.parts.size());
  return is_new ? slot.parts.emplace_back(key, InputSlot{}).second : slot.parts[position->second].second;
}

std::optional<InputValue> assemble_dict(const InputSlot& slot, const TypeNode& type, const std::string& name,
                                        std::vector<std::string>& misfits) {
  InputValue::Dict items;
  for (const auto& [key, part] : slot.parts) {
    InputValue key_value;
    if (unwrapped(type.children.at(0)).kind == Kind::kInt) {
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
      // Other spellings of the number would make one key of two.
      if (error != std::errc() || end != key.data() + key.size() || std::to_string(number) != key) {
        misfits.push_back(name + "." + key + ": the key must be an integer");
        return std::nullopt;
      }
      key_value.data = number;
    } else {
      key_value.data = key;
    }
    auto value = assemble_input(part, type.children.at(1), name + "." + key, misfits);
    if (!value) return std::nullopt;
    items.emplace_back(std::move(key_value), std::move(*value));
  }
  return InputValue{std::move(items), {}};
}

/// The value of a part that takes no other: None, a constant of the file, a tuple of such.
std::optional<InputValue> fixed_value(const TypeNode& type) {
  if (type.fixed) return *type.fixed;
  if (type.kind == Kind::kNone) return InputValue{InputValue::None{}, {}};
  if (type.kind != Kind::kTuple && type.kind != Kind::kNamedTuple) return std::nullopt;
  InputValue::Tuple elements;
  for (const auto& child : type.children) {
    auto value = fixed_value(child);
    if (!value) return std::nullopt;
    elements.elements.push_back(std::move(*value));
  }
  return InputValue{std::move(elements), {}};
}

std::optional<InputValue> assemble_sequence(const InputSlot& slot, const TypeNode& type, const std::string& name,
                                            std::vector<std::string>& misfits) {
  const bool is_list = type.kind == Kind::kList;
  std::size_t count = is_list ? 0 : type.children.size();
  for (const auto& part : slot.parts) count = std::max(count, *number_from(part.first) + 1);
  std::vector<const InputSlot*> parts(count, nullptr);
  for (const auto& part : slot.parts) parts[*number_from(part.first)] = &part.second;
  InputValue::List elements;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& element_type = is_list ? type.children.at(0) : type.children[i];
    const auto element_name = name + "." + (i < type.field_names.size() ? type.field_names[i] : std::to_string(i));
    if (parts[i] == nullptr) {
      if (auto fixed = fixed_value(element_type)) {
        elements.push_back(std::move(*fixed));
        continue;
      }
      misfits.push_back(element_name + ": nothing given (" + element_type.text + ")");
      return std::nullopt;  // one is enough: the others may be a million
    }
    auto value = assemble_input(*parts[i], element_type, element_name, misfits);
    if (!value) return std::nullopt;
    elements.push_back(std::move(*value));
  }
  if (is_list) return InputValue{std::move(elements), {}};
  return InputValue{InputValue::Tuple{std::move(elements)}, {}};
}

/// Appends the leaves of one argument; `lengths` says how long the next lists are. False where a dict has unknown keys.
bool append_leaves(const TypeNode& type, bool optional, InputLeaf leaf, const std::vector<std::size_t>& lengths,
                   std::size_t& next_list, std::vector<InputLeaf>& leaves) {
  const auto child = [&](const TypeNode& node, std::size_t index) {
    auto inner = leaf;
    inner.path += (inner.path.empty() ? "" : ".") + std::to_string(index);
    return append_leaves(node, false, inner, lengths, next_list, leaves);
  };
  switch (type.kind) {
    case Kind::kOptional:
      return append_leaves(type.children.at(0), true, leaf, lengths, next_list, leaves);
    case Kind::kDict:
      return false;
    case Kind::kList: {
      const auto length = next_list < lengths.size() ? lengths[next_list] : 0;
      ++next_list;
      for (std::size_t i = 0; i < length; ++i) {
        if (!child(type.children.at(0), i)) return false;
      }
      return true;
    }
    case Kind::kTuple:
    case Kind::kNamedTuple:
      for (std::size_t i = 0; i < type.children.size(); ++i) {
        if (!child(type.children[i], i)) return false;
      }
      return true;
    default:
      break;
  }
  leaf.needs_tensor = type.kind == Kind::kTensor && !optional;
  leaf.takes_tensor = type.kind == Kind::kTensor || type.kind == Kind::kInt || type.kind == Kind::kFloat ||
                      type.kind == Kind::kBool || type.kind == Kind::kNumber;
  leaves.push_back(std::move(leaf));
  return true;
}

class LayoutSearch {
 public:
  LayoutSearch(const Signature& signature, const std::vector<std::size_t>& numbers, const std::vector<bool>& bound)
      : signature_(signature), numbers_(numbers.begin(), numbers.end()), bound_(bound) {}

  LeafLayout run() {
    const auto first = layout({});
    if (!first) return {{}, "a dict has keys that numbers do not tell; name its parts"};
    if (num_lists_ == 0) return {*first, {}};
    if (num_lists_ > 2 || (num_lists_ == 2 && *numbers_.rbegin() >= kMaxTwoLists))
      return {{}, "the lengths of " + std::to_string(num_lists_) + " lists cannot be told from numbers; name them"};
    search();
    if (found_.size() == 1) return {found_[0], {}};
    const std::string ways = found_.empty() ? "no way" : "more than one way";
    return {{}, "there is " + ways + " to split the numbered tensors into the lists of the arguments; name them"};
  }

 private:
  std::optional<std::vector<InputLeaf>> layout(const std::vector<std::size_t>& lengths) {
    std::vector<InputLeaf> leaves;
    num_lists_ = 0;
    for (std::size_t i = 0; i < signature_.arguments.size(); ++i) {
      InputLeaf leaf;
      leaf.argument = i;
      if (!append_leaves(signature_.arguments[i].type, false, leaf, lengths, num_lists_, leaves)) {
        return std::nullopt;
      }
    }
    return leaves;
  }

  void search() {
    const std::size_t lists = num_lists_;
    const std::size_t wanted = *numbers_.rbegin() + 1;
    const std::size_t fixed = layout({})->size();
    const auto width = [&](std::size_t a, std::size_t b) {
      const auto leaves = layout({a, b});
      return leaves ? leaves->size() - fixed : 0;
    };
    const std::size_t width_a = width(1, 0);
    if (lists == 1) return search_last(lists, wanted, fixed, width_a, [](std::size_t n) { return std::vector{n}; });
    const std::size_t width_b = width(0, 1);
    for (std::size_t a = 0; a <= wanted && found_.size() < 2; ++a) {
      search_last(lists, wanted, fixed + a * width_a, width_b, [a](std::size_t n) { return std::vector{a, n}; });
    }
  }

  /// Tries the lengths of the last list that make the leaves reach the last number without a whole list beyond it.
  /// `fixed` counts the leaves outside it, `width` those of one of its elements.
  template <typename Lengths>
  void search_last(std::size_t lists, std::size_t wanted, std::size_t fixed, std::size_t width, Lengths lengths) {
    if (width == 0) return;  // lists or dicts in it, whose sizes no number tells
    const std::size_t least = wanted > fixed ? (wanted - fixed + width - 1) / width : 0;
    const std::size_t most = std::min(wanted / width, least + kMaxTried);
    for (std::size_t n = least; n <= most && found_.size() < 2; ++n) {
      auto leaves = layout(lengths(n));
      if (leaves && num_lists_ == lists && fits(*leaves)) found_.push_back(std::move(*leaves));
    }
  }

  bool fits(const std::vector<InputLeaf>& leaves) const {
    if (*numbers_.rbegin() >= leaves.size()) return false;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const bool hit = numbers_.contains(i);
      if (hit && (!leaves[i].takes_tensor || bound_[leaves[i].argument])) return false;
      const bool optional = bound_[leaves[i].argument] || signature_.arguments[leaves[i].argument].has_default;
      if (!hit && leaves[i].needs_tensor && !optional) return false;
    }
    return true;
  }

  const Signature& signature_;
  std::set<std::size_t> numbers_;
  const std::vector<bool>& bound_;
  std::size_t num_lists_ = 0;
  std::vector<std::vector<InputLeaf>> found_;
};

}  // namespace

void place_input(InputSlot& slot, const TypeNode& type, const std::string& name, std::string_view path,
                 const InputValue& value, std::vector<std::string>& misfits) {
  if (path.empty()) {
    if (!slot.empty()) {
      const auto& first = slot.value ? slot.value->source : std::string();
      misfits.push_back(name + ": given twice" +
                        (first.empty() || value.source.empty() ? "" : ", by " + first + " and by " + value.source));
    } else {
      slot.value = value;
    }
    return;
  }
  const auto& target = unwrapped(type);
  if (!is_container(target.kind)) {
    misfits.push_back(name + "." + std::string(path) + ": " + name + " is " + type.text + " and has no parts");
    return;
  }
  if (slot.value) {
    misfits.push_back(name + ": given as a whole and in parts");
    return;
  }
  // The keys of a dict of leaves may hold dots themselves.
  const bool takes_all = target.kind == Kind::kDict && !is_container(unwrapped(target.children.at(1)).kind);
  const auto dot = takes_all ? std::string_view::npos : path.find('.');
  std::string key(path.substr(0, dot));
  const TypeNode* inner = part_type(target, name, key, misfits);
  if (inner == nullptr) return;
  place_input(part_of(slot, key), *inner, name + "." + key, dot == std::string_view::npos ? "" : path.substr(dot + 1),
              value, misfits);
}

std::optional<InputValue> assemble_input(const InputSlot& slot, const TypeNode& type, const std::string& name,
                                         std::vector<std::string>& misfits) {
  if (slot.value) return slot.value;
  const auto& target = unwrapped(type);
  if (target.kind == Kind::kDict) return assemble_dict(slot, target, name, misfits);
  return assemble_sequence(slot, target, name, misfits);
}

bool takes_container(const TypeNode& type, const InputValue& value) {
  const auto kind = unwrapped(type).kind;
  if (std::holds_alternative<InputValue::Dict>(value.data)) return kind == Kind::kDict || kind == Kind::kNamedTuple;
  const bool is_sequence =
      std::holds_alternative<InputValue::List>(value.data) || std::holds_alternative<InputValue::Tuple>(value.data);
  return is_sequence && (kind == Kind::kList || kind == Kind::kTuple || kind == Kind::kNamedTuple);
}

LeafLayout leaf_layout(const Signature& signature, const std::vector<std::size_t>& numbers,
                       const std::vector<bool>& bound) {
  return LayoutSearch(signature, numbers, bound).run();
}

std::optional<std::vector<std::size_t>> common_numbers(const std::vector<const GivenInput*>& entries) {
  std::vector<std::size_t> numbers;
  std::unordered_set<std::size_t> seen;
  std::optional<std::string_view> common;
  for (const auto* entry : entries) {
    const std::string_view name = entry->name;
    const auto last = name.find_last_not_of("0123456789");
    const auto digits = last == std::string_view::npos ? 0 : last + 1;
    const auto number = number_from(name.substr(digits));
    if (!number || (common && *common != name.substr(0, digits))) return std::nullopt;
    common = name.substr(0, digits);
    if (!seen.insert(*number).second) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace tl

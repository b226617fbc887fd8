#include "engine/input_slots.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace tl {
namespace {

using Kind = TypeNode::Kind;
constexpr std::size_t kMaxElements = 1'000'000;  ///< numbers above are no element numbers

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
  const auto number = number_from(key);
  if (number && type.kind == Kind::kList) return &type.children.at(0);
  if (number && *number < type.children.size()) return &type.children[*number];
  misfits.push_back(name + "." + key + ": no such part of " + type.text);
  return nullptr;
}

InputSlot& part_of(InputSlot& slot, const std::string& key) {
  for (auto& [name, part] : slot.parts) {
    if (name == key) return part;
  }
  return slot.parts.emplace_back(key, InputSlot{}).second;
}

std::optional<InputValue> assemble_dict(const InputSlot& slot, const TypeNode& type, const std::string& name,
                                        std::vector<std::string>& misfits) {
  InputValue::Dict items;
  for (const auto& [key, part] : slot.parts) {
    InputValue key_value;
    if (unwrapped(type.children.at(0)).kind == Kind::kInt) {
      const auto number = number_from(key);
      if (!number) {
        misfits.push_back(name + "." + key + ": the key must be an integer");
        return std::nullopt;
      }
      key_value.data = static_cast<std::int64_t>(*number);
    } else {
      key_value.data = key;
    }
    auto value = assemble_input(part, type.children.at(1), name + "." + key, misfits);
    if (!value) return std::nullopt;
    items.emplace_back(std::move(key_value), std::move(*value));
  }
  return InputValue{std::move(items), {}};
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
    if (num_lists_ > 2)
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
    const std::size_t most = std::min<std::size_t>(*numbers_.rbegin() + 1, 512);
    for (std::size_t a = 0; a <= most && found_.size() < 2; ++a) {
      for (std::size_t b = 0; b <= (lists == 2 ? most : 0) && found_.size() < 2; ++b) {
        auto leaves = layout({a, b});
        if (leaves && num_lists_ == lists && fits(*leaves)) found_.push_back(std::move(*leaves));
      }
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
      misfits.push_back(name + ": given twice");
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
  if (std::holds_alternative<InputValue::Dict>(value.data)) return kind == Kind::kDict;
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
  std::optional<std::string_view> common;
  for (const auto* entry : entries) {
    const std::string_view name = entry->name;
    const auto last = name.find_last_not_of("0123456789");
    const auto digits = last == std::string_view::npos ? 0 : last + 1;
    const auto number = number_from(name.substr(digits));
    if (!number || (common && *common != name.substr(0, digits))) return std::nullopt;
    common = name.substr(0, digits);
    if (std::ranges::find(numbers, *number) != numbers.end()) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace tl

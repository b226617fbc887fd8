#include "engine/bind_inputs.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "core/error.h"
#include "core/text.h"
#include "engine/coerce_input.h"
#include "engine/input_slots.h"

namespace tl {
namespace {

std::vector<std::string> argument_names(const Signature& signature) {
  std::vector<std::string> names;
  for (const auto& argument : signature.arguments) names.push_back(argument.name);
  return names;
}

constexpr std::size_t kMaxShown = 20;  ///< misfits, and values given, that one message lists

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/// A type as its author writes it: classes without the packages that TorchScript puts before them.
std::string shown_type(std::string_view text) {
  constexpr std::string_view kPrefix = "__torch__.";
  std::string out;
  for (auto at = text.find(kPrefix); at != std::string_view::npos; at = text.find(kPrefix)) {
    out += text.substr(0, at);
    const auto last = std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), is_name_character);
    const auto name = text.substr(at, static_cast<std::size_t>(last - text.begin()) - at);
    out += name.substr(name.rfind('.') + 1);
    text.remove_prefix(at + name.size());
  }
  return out + std::string(text);
}

void show_types(TypeNode& type) {
  type.text = shown_type(type.text);
  for (auto& child : type.children) show_types(child);
}

Signature in_users_words(Signature signature) {
  for (auto& argument : signature.arguments) show_types(argument.type);
  return signature;
}

class Binder {
 public:
  Binder(const Signature& signature, std::span<const GivenSet> given, std::span<const StatedInput> stated)
      : signature_(in_users_words(signature)), given_(given), stated_(stated) {
    slots_.resize(signature.arguments.size());
    for (const auto& input : stated) expected_.emplace(input.path, &input);
  }

  BoundInputs run() {
    for (const auto& set : given_) bind_named(set);
    for (const auto& set : given_) bind_positional(set);
    for (const auto& set : given_) {
      if (!set.names_are_meant) bind_numbered(set);
    }
    bind_leftover();
    BoundInputs bound = finish();
    if (!misfits_.empty()) fail();
    return bound;
  }

 private:
  using Rest = std::pair<const GivenSet*, const GivenInput*>;

  std::optional<std::size_t> argument_at(std::string_view name) const {
    for (std::size_t i = 0; i < signature_.arguments.size(); ++i) {
      if (signature_.arguments[i].name == name) return i;
    }
    return std::nullopt;
  }

  void place(std::size_t argument, std::string_view path, const InputValue& value) {
    const auto& target = signature_.arguments[argument];
    place_input(slots_[argument], target.type, target.name, path, value, misfits_);
  }

  /// Arguments that still need a value; where none does, those that could take one.
  std::vector<std::size_t> needed() const {
    std::vector<std::size_t> required;
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (!slots_[i].empty()) continue;
      open.push_back(i);
      if (!signature_.arguments[i].has_default) required.push_back(i);
    }
    return required.empty() ? open : required;
  }

  void bind_named(const GivenSet& set) {
    for (const auto& entry : set.entries) {
      const auto dot = entry.name.find('.');
      const auto argument = argument_at(std::string_view(entry.name).substr(0, dot));
      if (argument) {
        place(*argument, dot == std::string::npos ? std::string_view{} : std::string_view(entry.name).substr(dot + 1),
              entry.value);
      } else if (set.names_are_meant) {
        misfits_.push_back(unknown_text(set, entry));
      } else {
        rest_.push_back({&set, &entry});
      }
    }
  }

  void bind_positional(const GivenSet& set) {
    if (set.whole && bind_whole(set)) return;
    std::size_t argument = 0;
    for (const auto& value : set.positional) {
      while (argument < slots_.size() && signature_.arguments[argument].keyword_only) ++argument;
      if (argument == slots_.size()) {
        misfits_.push_back(set.label + ": " + std::to_string(set.positional.size()) +
                           " positional values, the model takes " + std::to_string(slots_.size()));
        return;
      }
      place(argument++, {}, value);
    }
  }

  /// A file whose whole content is a list, tuple or dict may be the value of the one argument that takes such.
  bool bind_whole(const GivenSet& set) {
    const auto open = needed();
    if (open.size() != 1) return false;
    if (rest_of(set).size() != set.entries.size() || !takes_container(signature_.arguments[open[0]].type, *set.whole))
      return false;
    std::erase_if(rest_, [&](const Rest& rest) { return rest.first == &set; });
    place(open[0], {}, *set.whole);
    return true;
  }

  std::vector<const GivenInput*> rest_of(const GivenSet& set) const {
    std::vector<const GivenInput*> entries;
    for (const auto& [owner, entry] : rest_) {
      if (owner == &set) entries.push_back(entry);
    }
    return entries;
  }

  void bind_numbered(const GivenSet& set) {
    const auto entries = rest_of(set);
    if (entries.empty() || entries.size() != set.entries.size()) return;
    if (entries.size() == 1 && slots_.size() == 1) return;  // one tensor meets one argument, whatever its name
    const auto numbers = common_numbers(entries);
    if (!numbers) return;
    std::vector<bool> bound;
    for (const auto& slot : slots_) bound.push_back(!slot.empty());
    const auto layout = leaf_layout(signature_, *numbers, bound);
    if (!layout.reason.empty()) {
      misfits_.push_back(set.label + ": " + layout.reason);
      numbers_failed_ = true;
    } else {
      for (std::size_t i = 0; i < entries.size(); ++i) bind_number(set, *entries[i], (*numbers)[i], layout.leaves);
    }
    std::erase_if(rest_, [&](const Rest& rest) { return rest.first == &set; });
  }

  void bind_number(const GivenSet& set, const GivenInput& entry, std::size_t number,
                   const std::vector<InputLeaf>& leaves) {
    if (number >= leaves.size()) {
      misfits_.push_back(entry.name + " of " + set.label + ": number " + std::to_string(number) +
                         ", the arguments have " + std::to_string(leaves.size()) +
                         (leaves.size() == 1 ? " leaf" : " leaves"));
      return;
    }
    place(leaves[number].argument, leaves[number].path, entry.value);
  }

  void bind_leftover() {
    const auto open = needed();
    if (rest_.size() == 1 && open.size() == 1 && rest_[0].first->entries.size() == 1) {
      place(open[0], {}, rest_[0].second->value);
      rest_.clear();
    }
    for (const auto& [set, entry] : rest_) misfits_.push_back(unknown_text(*set, *entry));
  }

  std::string unknown_text(const GivenSet& set, const GivenInput& entry) const {
    if (entry.name.empty()) {
      const bool full = std::ranges::none_of(slots_, &InputSlot::empty);
      return set.label + ": " + describe(entry.value) + " has no name, and " +
             (full ? "no argument is left to take it" : "several arguments could take it");
    }
    std::string text = entry.name + " (" + set.label + ", " + describe(entry.value) + "): no argument of that name";
    const auto names = argument_names(signature_);
    const auto close = did_you_mean(std::string_view(entry.name).substr(0, entry.name.find('.')), names, 1);
    return close.empty() ? text : text + ", did you mean " + close[0] + "?";
  }

  BoundInputs finish() {
    BoundInputs bound;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const auto& argument = signature_.arguments[i];
      bound.arguments.emplace_back();
      bound.given.push_back(false);
      if (slots_[i].empty()) {
        // Where a file could not be told apart by number, it is the misfit, not what it would have given.
        if (!argument.has_default && !numbers_failed_)
          misfits_.push_back(argument.name + ": nothing given (" + argument.type.text + ")");
        continue;
      }
      auto value = assemble_input(slots_[i], argument.type, argument.name, misfits_);
      if (value) value = coerce_input(*value, argument.type, argument.name, misfits_);
      if (!value) continue;
      if (const auto* tensor = std::get_if<HostTensor>(&value->data)) {
        check_expectation(*tensor, argument.expected, argument.name, misfits_);
      }
      check_stated(*value, argument.name);
      bound.arguments.back() = std::move(*value);
      bound.given.back() = true;
    }
    return bound;
  }

  /// Holds the tensors of a bound value against what the file states of them.
  void check_stated(const InputValue& value, const std::string& path) {
    if (expected_.empty()) return;
    if (const auto* tensor = std::get_if<HostTensor>(&value.data)) {
      const auto found = expected_.find(path);
      if (found == expected_.end()) return;
      const std::vector<std::int64_t> any(found->second->sizes.size(), -1);
      check_expectation(*tensor, {.dtype = found->second->dtype, .sizes = any}, path, misfits_);
    } else if (const auto* list = std::get_if<InputValue::List>(&value.data)) {
      for (std::size_t i = 0; i < list->size(); ++i) check_stated((*list)[i], path + "." + std::to_string(i));
    } else if (const auto* tuple = std::get_if<InputValue::Tuple>(&value.data)) {
      for (std::size_t i = 0; i < tuple->elements.size(); ++i) {
        check_stated(tuple->elements[i], path + "." + std::to_string(i));
      }
    } else if (const auto* dict = std::get_if<InputValue::Dict>(&value.data)) {
      for (const auto& [key, element] : *dict) {
        const auto* text = std::get_if<std::string>(&key.data);
        check_stated(element, path + "." + (text != nullptr ? *text : describe(key)));
      }
    }
  }

  std::string taken_text() const {
    std::string text;
    for (const auto& argument : signature_.arguments) {
      text += (text.empty() ? "" : ", ") + argument.name + " " + argument.type.text +
              (argument.has_default ? " = " + argument.default_text : "");
    }
    return text.empty() ? "no arguments" : text;
  }

  std::string given_text() const {
    std::string text;
    std::size_t count = 0;
    const auto add = [&](const std::string& name, const InputValue& value, const GivenSet& set) {
      if (++count > kMaxShown) return;
      text += (text.empty() ? "" : ", ") + (name.empty() ? "" : elide(name, 80) + " ") + describe(value) + " (" +
              set.label + ")";
    };
    for (const auto& set : given_) {
      // A dict whose keys are no names gives nothing else.
      if (set.entries.empty() && set.positional.empty() && set.whole) add({}, *set.whole, set);
      for (const auto& value : set.positional) add({}, value, set);
      for (const auto& entry : set.entries) add(entry.name, entry.value, set);
    }
    if (count > kMaxShown) text += " and " + std::to_string(count - kMaxShown) + " more";
    return text.empty() ? "nothing" : text;
  }

  [[noreturn]] void fail_missing() const {
    std::string empty;
    for (const auto& set : given_) empty += (empty.empty() ? "" : ", ") + set.label;
    throw Error(ErrorCode::kInputMissing,
                signature_.method + " takes inputs, " +
                    (empty.empty() ? "none were given, and the file stores none" : "and there are none in " + empty),
                example_options(signature_, stated_), "the model takes  " + taken_text());
  }

  [[noreturn]] void fail() const {
    const bool nothing = std::ranges::all_of(
        given_, [](const GivenSet& set) { return set.entries.empty() && set.positional.empty() && !set.whole; });
    if (nothing) fail_missing();
    std::string notes;
    for (std::size_t i = 0; i < misfits_.size() && i < kMaxShown; ++i) notes += elide(misfits_[i], 400) + "\n";
    if (misfits_.size() > kMaxShown) notes += "and " + std::to_string(misfits_.size() - kMaxShown) + " more\n";
    notes += "the model takes  " + taken_text() + "\ngiven  " + given_text();
    throw Error(ErrorCode::kInputMismatch,
                "the inputs do not fit " + signature_.method + ": " + std::to_string(misfits_.size()) +
                    (misfits_.size() == 1 ? " misfit" : " misfits"),
                "name inputs by --input NAME=FILE:KEY, NAME=3, NAME=none", notes);
  }

  const Signature signature_;
  std::span<const GivenSet> given_;
  std::span<const StatedInput> stated_;
  std::unordered_map<std::string, const StatedInput*> expected_;  ///< by path
  std::vector<InputSlot> slots_;
  std::vector<Rest> rest_;  ///< entries whose names fit no argument
  std::vector<std::string> misfits_;
  bool numbers_failed_ = false;
};

}  // namespace

BoundInputs bind_inputs(const Signature& signature, std::span<const GivenSet> given,
                        std::span<const StatedInput> stated) {
  return Binder(signature, given, stated).run();
}

}  // namespace tl

#include "engine/bind_inputs.h"

#include <algorithm>
#include <optional>

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

class Binder {
 public:
  Binder(const Signature& signature, std::span<const GivenSet> given) : signature_(signature), given_(given) {
    slots_.resize(signature.arguments.size());
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
    const bool unnamed = std::ranges::all_of(set.entries, [&](const GivenInput& entry) { return is_rest(entry); });
    if (!unnamed || !takes_container(signature_.arguments[open[0]].type, *set.whole)) return false;
    std::erase_if(rest_, [&](const Rest& rest) { return rest.first == &set; });
    place(open[0], {}, *set.whole);
    return true;
  }

  bool is_rest(const GivenInput& entry) const {
    return std::ranges::any_of(rest_, [&](const Rest& rest) { return rest.second == &entry; });
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
                         ", the arguments have " + std::to_string(leaves.size()) + " leaves");
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
    if (entry.name.empty())
      return set.label + ": " + describe(entry.value) + " has no name, and several arguments could take it";
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
      bound.arguments.back() = std::move(*value);
      bound.given.back() = true;
    }
    return bound;
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
    const auto add = [&](const std::string& item) { text += (text.empty() ? "" : ", ") + item; };
    for (const auto& set : given_) {
      for (const auto& value : set.positional) add(describe(value) + " (" + set.label + ")");
      for (const auto& entry : set.entries) {
        add((entry.name.empty() ? "" : entry.name + " ") + describe(entry.value) + " (" + set.label + ")");
      }
    }
    return text.empty() ? "nothing" : text;
  }

  [[noreturn]] void fail() const {
    const bool nothing = std::ranges::all_of(
        given_, [](const GivenSet& set) { return set.entries.empty() && set.positional.empty() && !set.whole; });
    if (nothing) {
      throw Error(ErrorCode::kInputMissing,
                  signature_.method + " takes inputs, none were given, and the file stores none",
                  example_options(signature_), "the model takes  " + taken_text());
    }
    std::string notes;
    for (const auto& misfit : misfits_) notes += misfit + "\n";
    notes += "the model takes  " + taken_text() + "\ngiven  " + given_text();
    throw Error(ErrorCode::kInputMismatch,
                "the inputs do not fit " + signature_.method + ": " + std::to_string(misfits_.size()) +
                    (misfits_.size() == 1 ? " misfit" : " misfits"),
                "name inputs by --input NAME=FILE:KEY, NAME=3, NAME=none", notes);
  }

  const Signature& signature_;
  std::span<const GivenSet> given_;
  std::vector<InputSlot> slots_;
  std::vector<Rest> rest_;  ///< entries whose names fit no argument
  std::vector<std::string> misfits_;
  bool numbers_failed_ = false;
};

}  // namespace

BoundInputs bind_inputs(const Signature& signature, std::span<const GivenSet> given) {
  return Binder(signature, given).run();
}

}  // namespace tl

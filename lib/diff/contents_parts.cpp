#include "diff/contents_parts.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>

#include "diff/weight_pairs.h"

namespace tl {
namespace {

std::string renamed(const Renamer& rename, const std::string& name) { return rename ? rename(name) : name; }

/// The last part of a class: who imports it from where says nothing.
std::string_view bare_class(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::string shown_path(const std::string& path) { return path.empty() ? "the model" : path; }

std::string shown_module(const std::string& path) { return path.empty() ? "the model" : "module " + path; }

std::string input_text(const ModelInput& input, const ModelContents& side) {
  if (input.dtype == DType::kNone) return input.type;
  std::string text(short_name(input.dtype));
  if (!input.has_sizes) return text;
  std::set<std::string> used;
  text += "[";
  for (std::size_t i = 0; i < input.sizes.size(); ++i) {
    text += (i ? "," : "") + input.sizes[i];
    for (const auto& [symbol, range] : side.ranges) {
      if (input.sizes[i].find(symbol) != std::string::npos) used.insert(symbol + " in " + range);
    }
  }
  text += "]";
  for (const auto& range : used) text += " " + range;
  return text;
}

/// True unless both state something that cannot be the same argument.
bool same_input(const ModelInput& a, const ModelContents& a_side, const ModelInput& b, const ModelContents& b_side) {
  if (a.dtype != DType::kNone && b.dtype != DType::kNone && a.dtype != b.dtype) return false;
  if (a.has_sizes && b.has_sizes && input_text(a, a_side) != input_text(b, b_side)) return false;
  const bool tensors = a.dtype != DType::kNone || b.dtype != DType::kNone;
  if (!tensors && !a.type.empty() && !b.type.empty() && a.type != b.type) {
    return a_side.operator_form != b_side.operator_form;  // types are written alike within one form only
  }
  return true;
}

/// One side may list an argument that is a container, the other its leaves: `batch` against `batch_mask`, `batch.ids`.
class SignatureComparer {
 public:
  SignatureComparer(const ModelContents& reference, const ModelContents& subject)
      : reference_(reference), subject_(subject) {
    condition_.name = "signature";
    r_taken_.assign(reference.inputs.size(), false);
    s_taken_.assign(subject.inputs.size(), false);
  }

  Precondition run() {
    if (!reference_.has_inputs || !subject_.has_inputs) return std::move(condition_);
    match_names();
    match_leaves(reference_, r_taken_, subject_, s_taken_);
    match_leaves(subject_, s_taken_, reference_, r_taken_);
    match_positions();
    add_rest(reference_, r_taken_, "reference");
    add_rest(subject_, s_taken_, "subject");
    settle(condition_);
    return std::move(condition_);
  }

 private:
  void match_names() {
    for (std::size_t r = 0; r < reference_.inputs.size(); ++r) {
      const auto found = std::ranges::find(subject_.inputs, reference_.inputs[r].name, &ModelInput::name);
      const auto s = static_cast<std::size_t>(found - subject_.inputs.begin());
      if (found != subject_.inputs.end() && !s_taken_[s]) pair(r, s);
    }
  }

  void match_leaves(const ModelContents& whole, std::vector<bool>& whole_taken, const ModelContents& parts,
                    std::vector<bool>& parts_taken) {
    for (std::size_t i = 0; i < whole.inputs.size(); ++i) {
      const auto& container = whole.inputs[i];
      if (whole_taken[i] || container.dtype != DType::kNone) continue;
      bool any = false;
      for (std::size_t k = 0; k < parts.inputs.size(); ++k) {
        const auto& leaf = parts.inputs[k].name;
        const bool below = leaf.size() > container.name.size() && leaf.starts_with(container.name) &&
                           (leaf[container.name.size()] == '_' || leaf[container.name.size()] == '.');
        if (parts_taken[k] || !below) continue;
        parts_taken[k] = any = true;
      }
      if (!any) continue;
      whole_taken[i] = true;
      ++condition_.total;
      ++condition_.same;
    }
  }

  /// What has other names, where as many are left on both sides.
  void match_positions() {
    if (std::ranges::count(r_taken_, false) != std::ranges::count(s_taken_, false)) return;
    std::size_t s = 0;
    for (std::size_t r = 0; r < r_taken_.size(); ++r) {
      if (r_taken_[r]) continue;
      while (s_taken_[s]) ++s;
      pair(r, s);
    }
  }

  void pair(std::size_t r, std::size_t s) {
    r_taken_[r] = s_taken_[s] = true;
    const auto& ours = reference_.inputs[r];
    const auto& theirs = subject_.inputs[s];
    ++condition_.total;
    if (!same_input(ours, reference_, theirs, subject_)) {
      add_detail(condition_, "argument " + ours.name + ": " + input_text(ours, reference_) + " in reference, " +
                                 input_text(theirs, subject_) + " in subject");
      return;
    }
    ++condition_.same;
    if (ours.name != theirs.name) {
      add_detail(condition_, "argument " + ours.name + " is " + theirs.name + " in the subject");
    }
  }

  /// An argument that need not be given may be left out of a trace, an export or a run.
  void add_rest(const ModelContents& side, const std::vector<bool>& taken, const char* name) {
    for (std::size_t i = 0; i < side.inputs.size(); ++i) {
      if (taken[i] || side.inputs[i].optional) continue;
      ++condition_.total;
      add_detail(condition_, "argument " + side.inputs[i].name + " is only in the " + name);
    }
  }

  const ModelContents& reference_;
  const ModelContents& subject_;
  Precondition condition_;
  std::vector<bool> r_taken_;
  std::vector<bool> s_taken_;
};

/// Operators of scripts that yield no tensor: checks and bookkeeping that other dialects do not write.
bool is_host_operator(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kNames = {"aten::__is__", "aten::__isnot__", "aten::append",
                                                             "aten::dim",    "aten::format",    "aten::len",
                                                             "aten::list",   "aten::size",      "aten::warn"};
  return name.starts_with("prim::") || std::ranges::find(kNames, name) != kNames.end();
}

void add_uses(Precondition& condition, const char* side,
              const std::vector<std::pair<std::string, std::uint64_t>>& uses) {
  constexpr std::size_t kMost = 12;
  if (uses.empty()) return;
  std::string text = "operators only in " + std::string(side) + ": ";
  for (std::size_t i = 0; i < std::min(uses.size(), kMost); ++i) {
    text += (i ? ", " : "") + uses[i].first + (uses[i].second > 1 ? " ×" + std::to_string(uses[i].second) : "");
  }
  if (uses.size() > kMost) text += " and " + std::to_string(uses.size() - kMost) + " more";
  add_detail(condition, std::move(text));
}

/// The first token in which two units differ, -1 where they are equal.
std::int64_t first_difference(const ScriptUnit& a, const ScriptUnit& b) {
  const auto [at, other] = std::ranges::mismatch(a.tokens, b.tokens);
  if (at == a.tokens.end() && other == b.tokens.end()) return -1;
  return at - a.tokens.begin();
}

std::string code_text(const std::string& where, const ScriptUnit& a, const ScriptUnit& b, std::size_t token) {
  const auto line = [&](const ScriptUnit& unit) {
    if (token >= unit.tokens.size()) return std::string("nothing more");
    return unit.file.substr(unit.file.rfind('/') + 1) + ":" + std::to_string(unit.lines[token]) + " `" +
           unit.line_of(token) + "`";
  };
  return where + " (" + std::string(bare_class(a.name)) + "): " + line(a) + " in reference, " + line(b) + " in subject";
}

/// Units by the paths of their modules; units of no module by name, where there is one of it.
std::map<std::string, const ScriptUnit*> units_by_place(const std::vector<ScriptUnit>& code, const Renamer& rename) {
  std::map<std::string, const ScriptUnit*> places;
  std::set<std::string> ambiguous;
  for (const auto& unit : code) {
    for (const auto& path : unit.paths) places.emplace("module " + renamed(rename, path), &unit);
    if (!unit.paths.empty()) continue;
    if (!places.emplace("name " + unit.name, &unit).second) ambiguous.insert("name " + unit.name);
  }
  for (const auto& place : ambiguous) places.erase(place);
  return places;
}

}  // namespace

Precondition compare_signatures(const ModelContents& reference, const ModelContents& subject) {
  return SignatureComparer(reference, subject).run();
}

Precondition compare_module_trees(const ModelContents& reference, const ModelContents& subject, const Renamer& rename) {
  Precondition condition;
  condition.name = "modules";
  std::map<std::string_view, const ModelModule*> theirs;
  for (const auto& module : subject.modules) theirs.emplace(module.path, &module);
  const bool all = reference.all_modules && subject.all_modules;
  for (const auto& module : reference.modules) {
    const auto found = theirs.find(renamed(rename, module.path));
    if (found == theirs.end()) {
      if (!all) continue;
      ++condition.total;
      add_detail(condition, shown_module(module.path) + ": only in the reference");
      continue;
    }
    const auto& other = *found->second;
    theirs.erase(found);
    if (module.class_name.empty() || other.class_name.empty()) continue;
    ++condition.total;
    if (bare_class(module.class_name) == bare_class(other.class_name)) {
      ++condition.same;
    } else {
      add_detail(condition, shown_module(module.path) + ": " + module.class_name + " in reference, " +
                                other.class_name + " in subject");
    }
  }
  for (const auto& module : subject.modules) {
    if (!all || !theirs.contains(module.path)) continue;
    ++condition.total;
    add_detail(condition, shown_module(module.path) + ": only in the subject");
  }
  settle(condition);
  return condition;
}

Precondition compare_modes(const ModelContents& reference, const ModelContents& subject, const Renamer& rename) {
  Precondition condition;
  condition.name = "mode";
  condition.reference = reference.mode;
  condition.subject = subject.mode;
  if (!reference.mode.empty() && !subject.mode.empty()) {
    condition.agreement = reference.mode == subject.mode ? Agreement::kSame : Agreement::kDifferent;
  }
  std::unordered_map<std::string_view, bool> theirs;
  for (const auto& module : subject.modules) {
    if (module.training) theirs.emplace(module.path, *module.training);
  }
  for (const auto& module : reference.modules) {
    const auto found = module.training ? theirs.find(renamed(rename, module.path)) : theirs.end();
    if (found == theirs.end() || found->second == *module.training) continue;
    const auto word = [](bool training) { return std::string(training ? "train" : "eval"); };
    condition.agreement = Agreement::kDifferent;
    add_detail(condition, shown_path(module.path) + ": " + word(*module.training) + " in reference, " +
                              word(found->second) + " in subject");
  }
  for (auto* mode : {&condition.reference, &condition.subject}) {
    if (condition.agreement == Agreement::kDifferent && mode->empty()) *mode = "not stated";
  }
  return condition;
}

Precondition compare_operators(const ModelContents& reference, const ModelContents& subject) {
  Precondition condition;
  condition.name = "operators";
  if (reference.operator_form == OperatorForm::kNone || subject.operator_form == OperatorForm::kNone) return condition;
  const bool alike = reference.operator_form == subject.operator_form && reference.dialect == subject.dialect;
  const std::map<std::string, std::uint64_t> theirs(subject.operators.begin(), subject.operators.end());
  const std::map<std::string, std::uint64_t> ours(reference.operators.begin(), reference.operators.end());
  std::vector<std::pair<std::string, std::uint64_t>> removed;
  std::vector<std::pair<std::string, std::uint64_t>> inserted;
  std::vector<std::string> counts;
  for (const auto& [name, count] : ours) {
    const auto found = theirs.find(name);
    if (found == theirs.end()) {
      if (alike || !is_host_operator(name)) removed.emplace_back(name, count);
    } else if (alike && found->second != count) {
      counts.push_back(name + ": " + std::to_string(count) + " times in reference, " + std::to_string(found->second) +
                       " in subject");
    } else {
      ++condition.same;
    }
  }
  for (const auto& [name, count] : theirs) {
    if (!ours.contains(name) && (alike || !is_host_operator(name))) inserted.emplace_back(name, count);
  }
  add_uses(condition, "reference", removed);
  add_uses(condition, "subject", inserted);
  for (auto& text : counts) add_detail(condition, std::move(text));
  if (alike) {
    condition.total = condition.same + static_cast<std::int64_t>(removed.size() + inserted.size() + counts.size());
    settle(condition);
  } else {
    condition.same = 0;
  }
  return condition;
}

Precondition compare_code(const ModelContents& reference, const ModelContents& subject, const Renamer& rename) {
  Precondition condition;
  condition.name = "code";
  const auto ours = units_by_place(reference.code, rename);
  const auto theirs = units_by_place(subject.code, {});
  std::set<std::pair<const ScriptUnit*, const ScriptUnit*>> told;
  for (const auto& [place, unit] : ours) {
    const auto found = theirs.find(place);
    if (found == theirs.end()) continue;  // said of the module
    ++condition.total;
    const auto token = first_difference(*unit, *found->second);
    if (token < 0) {
      ++condition.same;
    } else if (told.emplace(unit, found->second).second) {
      const bool module = place.starts_with("module ");
      const auto where = module ? shown_path(place.substr(7)) : "function " + place.substr(5);
      add_detail(condition, code_text(where, *unit, *found->second, static_cast<std::size_t>(token)));
    }
  }
  settle(condition);
  return condition;
}

Precondition compare_attributes(const ModelContents& reference, const ModelContents& subject, const Renamer& rename) {
  Precondition condition;
  condition.name = "attributes";
  const std::map<std::string, std::string> theirs(subject.attributes.begin(), subject.attributes.end());
  for (const auto& [name, literal] : reference.attributes) {
    const auto dot = name.rfind('.');
    const auto path = dot == std::string::npos ? std::string() : renamed(rename, name.substr(0, dot));
    const auto leaf = dot == std::string::npos ? name : name.substr(dot + 1);
    const auto found = theirs.find(path.empty() ? leaf : path + "." + leaf);
    if (found == theirs.end()) continue;
    ++condition.total;
    if (found->second == literal) {
      ++condition.same;
    } else {
      add_detail(condition, name + " = " + literal + " in reference, " + found->second + " in subject");
    }
  }
  settle(condition);
  return condition;
}

}  // namespace tl

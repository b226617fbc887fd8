#include "diff/preconditions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "diff/arguments.h"
#include "diff/report_parts.h"
#include "diff/values.h"
#include "diff/weights.h"
#include "tensor/statistics.h"

namespace tl {
namespace {

std::size_t row_of(std::int64_t value) { return static_cast<std::size_t>(value); }

constexpr std::size_t kMostDetails = 8;

std::string number(double value) {
  std::array<char, 32> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, 4).ptr;
  return {buffer.data(), end};
}

void add_detail(Precondition& condition, std::string text) { condition.details.push_back(std::move(text)); }

/// Leaves the first details of many and says how many there are.
void shorten(Precondition& condition) {
  if (condition.details.size() <= kMostDetails) return;
  const auto more = condition.details.size() - kMostDetails;
  condition.details.resize(kMostDetails);
  condition.details.push_back("and " + std::to_string(more) + " more");
}

/// Two of the names, and how many more there are.
std::string some_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 2); ++i) text += (i ? ", " : "") + names[i];
  return names.size() > 2 ? text + " and " + std::to_string(names.size() - 2) + " more" : text;
}

void settle(Precondition& condition) {
  if (condition.total > 0)
    condition.agreement = condition.same == condition.total ? Agreement::kSame : Agreement::kDifferent;
}

/// Inputs or unwritten buffers, by value.
Precondition compare_state(const Side& reference, const Side& subject, const Alignment& alignment, OpKind kind) {
  Precondition condition;
  condition.name = kind == OpKind::kInput ? "inputs" : "buffers";
  for (std::size_t r = 0; r < reference.size(); ++r) {
    const auto s = alignment.subject_of[r];
    if (reference.kind[r] != kind) continue;
    const bool written = reference.trace && (reference.trace->ops.flags[r] & kOpBufferWrite);
    if (kind == OpKind::kBuffer && written) continue;
    const auto ours = site_ref(reference, r);
    if (s < 0) {
      if (kind != OpKind::kInput) continue;
      ++condition.total;
      add_detail(condition, ours.module + " is only in the reference");
      continue;
    }
    DiffSite site;
    site.reference = ours;
    site.subject = site_ref(subject, row_of(s));
    const bool same_type = site.reference.dtype == site.subject.dtype && site.reference.sizes == site.subject.sizes;
    compare_values(reference, r, subject, row_of(s), {}, site);
    if (site.evidence == Evidence::kShape && same_type) continue;
    ++condition.total;
    if (same_type && site.error == 0) {
      ++condition.same;
    } else {
      auto text = ours.module + ": " + (kind == OpKind::kInput ? input_hint(reference, r, subject, row_of(s)) : "");
      if (text.ends_with(": ")) text += "values differ, rel L2 " + number(site.error);
      add_detail(condition, std::move(text));
    }
  }
  for (std::size_t s = 0; kind == OpKind::kInput && s < subject.size(); ++s) {
    if (subject.kind[s] != kind || alignment.reference_of[s] >= 0 || dtype_of(subject, s) == DType::kNone) continue;
    ++condition.total;
    add_detail(condition, site_ref(subject, s).module + " is only in the subject");
  }
  settle(condition);
  return condition;
}

/// How each parameter of the reference differs, where its values were looked at.
using Explained = std::unordered_map<std::string_view, const WeightDifference*>;

/// What is said of two parameters of one name that differ.
std::string weight_detail(const ParamFacts& ours, const ParamFacts& theirs, const Explained& explained,
                          const std::unordered_map<std::string_view, std::string_view>& by_digest) {
  const auto found = explained.find(ours.address);
  const auto why = found == explained.end() ? std::string() : found->second->text;
  if (ours.dtype != theirs.dtype || ours.sizes != theirs.sizes) {
    return ours.name + ": " + report::type_text(ours.dtype, ours.sizes) + " in reference, " +
           report::type_text(theirs.dtype, theirs.sizes) + " in subject" + (why.empty() ? "" : "; " + why);
  }
  const auto held = by_digest.find(ours.digest);
  return ours.name + ": " + (why.empty() ? "contents differ" : why) +
         (held == by_digest.end() ? "" : "; the subject has them in " + std::string(held->second));
}

/// The further names of parameters that have several, by name: tied weights.
std::unordered_map<std::string, std::string> first_names(const Side& side, const Renamer& rename) {
  std::unordered_map<std::string, std::string> first;
  const auto name = [&](std::string_view address) { return rename ? rename(address) : std::string(address); };
  if (side.dump) {
    for (const auto& param : side.dump->params) {
      for (const auto& other : param.other_addresses) first.emplace(name(other), name(param.address));
    }
    return first;
  }
  const auto& params = side.trace->params;
  for (std::size_t row = 0; row < params.address.size(); ++row) {
    const auto address = side.trace->strings[params.address[row]];
    auto rest = side.trace->strings[params.all_addresses[row]];
    while (!rest.empty()) {
      const auto comma = std::min(rest.find(','), rest.size());
      if (rest.substr(0, comma) != address) first.emplace(name(rest.substr(0, comma)), name(address));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return first;
}

/// Addresses of parameters that the other side must have: no constants, and none that nothing reads.
std::unordered_set<std::string_view> needed_params(const Side& side) {
  std::unordered_set<std::string_view> needed;
  if (side.dump) {
    for (const auto& param : side.dump->params) {
      if (!param.is_buffer) needed.insert(param.address);
    }
    return needed;
  }
  const auto& trace = *side.trace;
  for (const auto param : trace.param_uses.param) {
    if (param < 0 || static_cast<ParamKind>(trace.params.kind[row_of(param)]) == ParamKind::kConstant) continue;
    needed.insert(trace.strings[trace.params.address[row_of(param)]]);
  }
  return needed;
}

/// Parameters of both sides: by name, then by content, then by what explain_weights paired.
class WeightCheck {
 public:
  WeightCheck(const Side& reference, const Side& subject, const Renamer& rename,
              const std::vector<WeightDifference>& weights)
      : reference_(reference), subject_(subject), rename_(rename), weights_(weights) {}

  Precondition run() {
    condition_.name = "weights";
    for (const auto& difference : weights_) explained_.emplace(difference.reference, &difference);
    const auto ours = params_of(reference_, rename_);
    const auto theirs = params_of(subject_, {});
    for (const auto& param : theirs) {
      if (!param.digest.empty()) by_digest_.emplace(param.digest, param.name);
    }
    pair_by_name(ours, theirs);
    pair_by_content(ours, theirs);
    for (const auto& difference : weights_) add_unnamed(difference);
    // A side that keeps its weights elsewhere, as quantised modules do, says nothing of the other's.
    if (condition_.total > 0) {
      count_missing(ours, ours_told_, needed_params(reference_), "reference");
      count_missing(theirs, theirs_told_, needed_params(subject_), "subject");
    }
    settle(condition_);
    if (elsewhere_ > 0) summaries_.push_back(std::to_string(elsewhere_) + " under other names");
    condition_.details.insert(condition_.details.begin(), summaries_.begin(), summaries_.end());
    return std::move(condition_);
  }

 private:
  using ByName = std::unordered_map<std::string_view, const ParamFacts*>;

  static ByName by_name(const std::vector<ParamFacts>& params) {
    ByName index;
    for (const auto& param : params) index.emplace(param.name, &param);
    return index;
  }

  /// A parameter that is tied on one side only meets each of the other's.
  void pair_by_name(const std::vector<ParamFacts>& ours, const std::vector<ParamFacts>& theirs) {
    const auto ours_by_name = by_name(ours);
    const auto theirs_by_name = by_name(theirs);
    const auto find = [](const ByName& index, const std::unordered_map<std::string, std::string>& first,
                         const std::string& name) -> const ParamFacts* {
      if (const auto found = index.find(name); found != index.end()) return found->second;
      const auto alias = first.find(name);
      const auto found = alias == first.end() ? index.end() : index.find(alias->second);
      return found == index.end() ? nullptr : found->second;
    };
    const auto our_first = first_names(reference_, rename_);
    const auto their_first = first_names(subject_, {});
    std::unordered_map<const ParamFacts*, const ParamFacts*> partner;
    for (const auto& param : ours) {
      const auto* other = find(theirs_by_name, their_first, param.name);
      if (!other) continue;
      partner.emplace(&param, other);
      compare(param, *other, param.name);
    }
    for (const auto& param : theirs) {
      const auto* other = theirs_told_.contains(param.address) ? nullptr : find(ours_by_name, our_first, param.name);
      if (other && partner[other] != &param) compare(*other, param, param.name);
    }
  }

  void compare(const ParamFacts& ours, const ParamFacts& theirs, const std::string& name) {
    ours_told_.insert(ours.address);
    theirs_told_.insert(theirs.address);
    const bool same_type = ours.dtype == theirs.dtype && ours.sizes == theirs.sizes;
    if (same_type && (ours.digest.empty() || theirs.digest.empty())) return;
    ++condition_.total;
    if (same_type && ours.digest == theirs.digest) {
      ++condition_.same;
      return;
    }
    differing_.insert(ours.address);
    auto shown = ours;
    shown.name = name;
    add_detail(condition_, weight_detail(shown, theirs, explained_, by_digest_));
  }

  void pair_by_content(const std::vector<ParamFacts>& ours, const std::vector<ParamFacts>& theirs) {
    std::unordered_set<std::string_view> held;
    for (const auto& param : ours) {
      if (param.digest.empty()) continue;
      held.insert(param.digest);
      if (ours_told_.contains(param.address) || !by_digest_.contains(param.digest)) continue;
      ours_told_.insert(param.address);
      ++condition_.same, ++condition_.total, ++elsewhere_;
    }
    for (const auto& param : theirs) {  // one of the reference may be several equal ones of the subject
      if (held.contains(param.digest)) theirs_told_.insert(param.address);
    }
  }

  /// Pairs that have no common name: packed weights, dequantised ones.
  void add_unnamed(const WeightDifference& difference) {
    if (differing_.contains(difference.reference)) return;
    ours_told_.insert(difference.reference);
    theirs_told_.insert(difference.subject);
    ++condition_.total;
    add_detail(condition_, difference.reference + ": " + difference.text + "; " + difference.subject + " in subject");
  }

  void count_missing(const std::vector<ParamFacts>& params, const std::unordered_set<std::string>& told,
                     const std::unordered_set<std::string_view>& needed, const std::string& where) {
    std::vector<std::string> names;
    for (const auto& param : params) {
      if (!told.contains(param.address) && needed.contains(param.address)) names.push_back(param.address);
    }
    condition_.total += static_cast<std::int64_t>(names.size());
    if (!names.empty()) {
      summaries_.push_back(std::to_string(names.size()) + " only in " + where + ": " + some_names(names));
    }
  }

  const Side& reference_;
  const Side& subject_;
  const Renamer& rename_;
  const std::vector<WeightDifference>& weights_;
  Explained explained_;
  std::unordered_map<std::string_view, std::string_view> by_digest_;
  std::unordered_set<std::string> ours_told_;  ///< by address
  std::unordered_set<std::string> theirs_told_;
  std::unordered_set<std::string> differing_;
  std::vector<std::string> summaries_;  ///< before what differs one by one
  std::int64_t elsewhere_ = 0;
  Precondition condition_;
};

Precondition compare_text(std::string name, std::string reference, std::string subject) {
  Precondition condition;
  condition.name = std::move(name);
  if (!reference.empty() && !subject.empty()) {
    condition.agreement = reference == subject ? Agreement::kSame : Agreement::kDifferent;
  }
  condition.reference = std::move(reference);
  condition.subject = std::move(subject);
  return condition;
}

std::string mode_of(const Side& side) {
  const auto& mode = side.trace ? side.trace->run.mode : side.dump->mode;
  return mode == "baked" ? "" : mode;  // what a trace was made in stands in the arguments of its operations
}

/// Modules of one name that train on one side only.
void compare_module_modes(const Trace& reference, const Trace& subject, const Renamer& rename,
                          Precondition& condition) {
  std::unordered_map<std::string_view, std::uint8_t> theirs;
  for (std::size_t row = 0; row < subject.modules.address.size(); ++row) {
    theirs.emplace(subject.strings[subject.modules.address[row]], subject.modules.training[row]);
  }
  for (std::size_t row = 0; row < reference.modules.address.size(); ++row) {
    const auto address = reference.strings[reference.modules.address[row]];
    const auto found = theirs.find(rename ? rename(address) : std::string(address));
    const auto mine = reference.modules.training[row];
    if (found == theirs.end() || mine > 1 || found->second > 1 || mine == found->second) continue;
    condition.agreement = Agreement::kDifferent;
    const auto word = [](std::uint8_t training) { return training ? std::string("train") : std::string("eval"); };
    add_detail(condition,
               std::string(address) + ": " + word(mine) + " in reference, " + word(found->second) + " in subject");
  }
}

bool any_draws_random(const Side& side) {
  for (std::uint32_t op = 0; side.trace && op < side.size(); ++op) {
    if (draws_random(*side.trace, OpId{op})) return true;
  }
  return false;
}

std::string seed_of(const Side& side) {
  if (side.trace) return std::to_string(side.trace->run.seed);
  return side.dump->seed ? std::to_string(*side.dump->seed) : "";
}

Precondition compare_branches(const Trace& reference, const Trace& subject) {
  Precondition condition;
  condition.name = "branches";
  const auto arms = [](const Trace& trace) {
    std::vector<std::pair<std::string, std::uint8_t>> list;
    for (std::size_t row = 0; row < trace.branches.arm.size(); ++row) {
      const auto call = ModuleCallId{static_cast<std::uint32_t>(trace.branches.module_call[row])};
      list.emplace_back(module_call_label(trace, call), trace.branches.arm[row]);
    }
    return list;
  };
  const auto ours = arms(reference);
  const auto theirs = arms(subject);
  if (ours.empty() || theirs.empty()) return condition;  // a trace or an export has its branches baked in
  condition.total = static_cast<std::int64_t>(std::max(ours.size(), theirs.size()));
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    if (ours[i].second == theirs[i].second) {
      ++condition.same;
    } else {
      add_detail(condition, ours[i].first + ": arm " + std::to_string(ours[i].second) + " in reference, " +
                                std::to_string(theirs[i].second) + " in subject");
    }
  }
  if (ours.size() != theirs.size()) {
    add_detail(condition, std::to_string(ours.size()) + " conditionals ran in reference, " +
                              std::to_string(theirs.size()) + " in subject");
  }
  settle(condition);
  return condition;
}

TensorStats stats_of(const Side& side, std::size_t row) {
  const auto value = value_of(side, row);
  if (value.evidence != Evidence::kFull || value.tensor->kind() != TensorKind::kStrided) return {};
  return compute_stats(value.tensor->to_host().at(0).tensor);
}

/// True if b is a with the channels last.
bool is_channels_last(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  if (a.size() < 3 || a.size() != b.size() || a == b) return false;
  auto moved = a;
  std::rotate(moved.begin() + static_cast<std::ptrdiff_t>(a.size()) - 3, moved.end() - 2, moved.end());
  return moved == b;
}

}  // namespace

std::string input_hint(const Side& reference, std::size_t reference_row, const Side& subject, std::size_t subject_row) {
  const auto ours = site_ref(reference, reference_row);
  const auto theirs = site_ref(subject, subject_row);
  std::string text;
  if (ours.dtype != theirs.dtype || ours.sizes != theirs.sizes) {
    text = report::type_text(ours.dtype, ours.sizes) + " in reference, " +
           report::type_text(theirs.dtype, theirs.sizes) + " in subject";
  }
  if (is_channels_last(ours.sizes, theirs.sizes)) text += "; the subject's looks like NHWC, the reference's like NCHW";
  if (is_channels_last(theirs.sizes, ours.sizes)) text += "; the reference's looks like NHWC, the subject's like NCHW";
  const auto a = stats_of(reference, reference_row);
  const auto b = stats_of(subject, subject_row);
  if (!a.has_finite() || !b.has_finite()) return text;
  const auto range = [](const TensorStats& stats) { return number(stats.min) + " .. " + number(stats.max); };
  if (range(a) == range(b)) return text;
  text += (text.empty() ? "" : "; ") + std::string("range ") + range(a) + " in reference, " + range(b) + " in subject";
  const auto is_bytes = [](const TensorStats& stats) { return stats.min >= 0 && stats.max > 64 && stats.max <= 255; };
  const auto is_unit = [](const TensorStats& stats) {
    return stats.min >= -0.01 && stats.max <= 1.01 && stats.max > 0.2;
  };
  if (is_bytes(a) && is_unit(b)) text += ": 0 .. 255 against 0 .. 1";
  if (is_unit(a) && is_bytes(b)) text += ": 0 .. 1 against 0 .. 255";
  if ((is_unit(a) || is_bytes(a)) && b.min < -0.2) text += ": the subject's looks normalised";
  if ((is_unit(b) || is_bytes(b)) && a.min < -0.2) text += ": the reference's looks normalised";
  return text;
}

std::vector<Precondition> check_preconditions(const Side& reference, const Side& subject, const Alignment& alignment,
                                              const Renamer& rename, const std::vector<WeightDifference>& weights,
                                              bool values) {
  std::vector<Precondition> conditions;
  if (values) conditions.push_back(compare_state(reference, subject, alignment, OpKind::kInput));
  conditions.push_back(WeightCheck(reference, subject, rename, weights).run());
  if (values) conditions.push_back(compare_state(reference, subject, alignment, OpKind::kBuffer));
  conditions.push_back(compare_text("mode", mode_of(reference), mode_of(subject)));
  if (reference.trace && subject.trace) {
    compare_module_modes(*reference.trace, *subject.trace, rename, conditions.back());
  }
  if (any_draws_random(reference) || any_draws_random(subject)) {
    conditions.push_back(compare_text("seed", seed_of(reference), seed_of(subject)));
  }
  if (reference.trace && subject.trace) conditions.push_back(compare_branches(*reference.trace, *subject.trace));
  for (auto& condition : conditions) shorten(condition);
  return conditions;
}

}  // namespace tl

#include "diff/preconditions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "diff/arguments.h"
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

std::string type_text(DType dtype, std::span<const std::int64_t> sizes) {
  std::string text(short_name(dtype));
  text += "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) text += (i ? "," : "") + std::to_string(sizes[i]);
  return text + "]";
}

void add_detail(Precondition& condition, std::string text) {
  if (condition.details.size() < kMostDetails) condition.details.push_back(std::move(text));
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
  settle(condition);
  return condition;
}

/// How each parameter of the reference differs, where its values were looked at.
using Explained = std::unordered_map<std::string_view, const WeightDifference*>;

/// Pairs that have no common name: packed weights, dequantised ones.
void add_unnamed_weights(const std::vector<WeightDifference>& weights, const std::unordered_set<std::string>& named,
                         Precondition& condition) {
  for (const auto& difference : weights) {
    if (named.contains(difference.reference)) continue;
    ++condition.total;
    add_detail(condition, difference.reference + ": " + difference.text + "; " + difference.subject + " in subject");
  }
}

/// What is said of two parameters of one name that differ.
std::string weight_detail(const ParamFacts& ours, const ParamFacts& theirs, const Explained& explained,
                          const std::unordered_map<std::string_view, std::string_view>& by_digest) {
  const auto found = explained.find(ours.address);
  const auto why = found == explained.end() ? std::string() : found->second->text;
  if (ours.dtype != theirs.dtype || ours.sizes != theirs.sizes) {
    return ours.name + ": " + type_text(ours.dtype, ours.sizes) + " in reference, " +
           type_text(theirs.dtype, theirs.sizes) + " in subject" + (why.empty() ? "" : "; " + why);
  }
  const auto held = by_digest.find(ours.digest);
  return ours.name + ": " + (why.empty() ? "contents differ" : why) +
         (held == by_digest.end() ? "" : "; the subject has them in " + std::string(held->second));
}

Precondition compare_weights(const Side& reference, const Side& subject, const Renamer& rename,
                             const std::vector<WeightDifference>& weights) {
  Precondition condition;
  condition.name = "weights";
  const auto theirs = params_of(subject, {});
  std::unordered_map<std::string_view, const ParamFacts*> by_name;
  std::unordered_map<std::string_view, std::string_view> by_digest;
  for (const auto& param : theirs) {
    by_name.emplace(param.name, &param);
    if (!param.digest.empty()) by_digest.emplace(param.digest, param.name);
  }
  Explained explained;
  for (const auto& difference : weights) explained.emplace(difference.reference, &difference);
  std::unordered_set<std::string> told;
  std::int64_t elsewhere = 0;
  for (const auto& param : params_of(reference, rename)) {
    const auto named = by_name.find(param.name);
    if (named == by_name.end()) {
      if (!param.digest.empty() && by_digest.contains(param.digest)) ++condition.same, ++condition.total, ++elsewhere;
      continue;
    }
    const auto& other = *named->second;
    const bool same_type = param.dtype == other.dtype && param.sizes == other.sizes;
    if (same_type && (param.digest.empty() || other.digest.empty())) continue;
    ++condition.total;
    if (same_type && param.digest == other.digest) {
      ++condition.same;
      continue;
    }
    told.insert(param.address);
    add_detail(condition, weight_detail(param, other, explained, by_digest));
  }
  add_unnamed_weights(weights, told, condition);
  settle(condition);
  if (elsewhere > 0) add_detail(condition, std::to_string(elsewhere) + " under other names");
  return condition;
}

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
    text =
        type_text(ours.dtype, ours.sizes) + " in reference, " + type_text(theirs.dtype, theirs.sizes) + " in subject";
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
  conditions.push_back(compare_weights(reference, subject, rename, weights));
  if (values) conditions.push_back(compare_state(reference, subject, alignment, OpKind::kBuffer));
  conditions.push_back(compare_text("mode", mode_of(reference), mode_of(subject)));
  if (reference.trace && subject.trace) {
    compare_module_modes(*reference.trace, *subject.trace, rename, conditions.back());
  }
  if (any_draws_random(reference) || any_draws_random(subject)) {
    conditions.push_back(compare_text("seed", seed_of(reference), seed_of(subject)));
  }
  if (reference.trace && subject.trace) conditions.push_back(compare_branches(*reference.trace, *subject.trace));
  return conditions;
}

}  // namespace tl

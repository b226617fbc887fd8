#include "diff/weight_pairs.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace tl {
namespace {

using Kind = ModelTensor::Kind;

constexpr std::size_t kNone = static_cast<std::size_t>(-1);
constexpr std::size_t kMostDetails = 100;

std::string type_text(const ModelTensor& tensor) {
  std::string text(short_name(tensor.dtype));
  text += "[";
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) text += (i ? "," : "") + std::to_string(tensor.sizes[i]);
  return text + "]";
}

class Weights {
 public:
  Weights(const std::vector<ModelTensor>& reference, const std::vector<ModelTensor>& subject,
          const WeightOptions& options)
      : reference_(reference), subject_(subject), options_(options), partner_(reference.size(), kNone) {
    reference_of_.assign(subject.size(), kNone);
    by_content_.assign(reference.size(), false);
    result_.weights.name = "weights";
    result_.buffers.name = "buffers";
  }

  WeightComparison run() {
    pair_names();
    pair_prefixed();
    index_contents();
    pair_contents();
    for (std::size_t r = 0; r < reference_.size(); ++r) partner_[r] == kNone ? add_missing(r) : add_pair(r);
    for (std::size_t s = 0; s < subject_.size(); ++s) {
      if (reference_of_[s] == kNone) add_extra(s);
    }
    add_renamed();
    settle(result_.weights);
    settle(result_.buffers);
    return std::move(result_);
  }

 private:
  std::string renamed(const std::string& name) const { return options_.rename ? options_.rename(name) : name; }

  void pair_names() {
    std::unordered_map<std::string_view, std::size_t> by_name;
    for (std::size_t s = 0; s < subject_.size(); ++s) by_name.emplace(subject_[s].name, s);
    for (std::size_t s = 0; s < subject_.size(); ++s) {
      for (const auto& name : subject_[s].other_names) by_name.emplace(name, s);
    }
    for (std::size_t r = 0; r < reference_.size(); ++r) {
      auto found = by_name.find(renamed(reference_[r].name));
      for (const auto& name : reference_[r].other_names) {
        if (found == by_name.end()) found = by_name.find(renamed(name));
      }
      if (found != by_name.end()) pair(r, found->second);
    }
  }

  /// A checkpoint of a wrapper has all names below `module.` or `model.`: what is left by name is paired without the
  /// leading part that brings the most of them together, if that is half of what the smaller side has left.
  void pair_prefixed() {
    std::unordered_map<std::string, std::size_t> ours;
    std::unordered_map<std::string, std::size_t> theirs;
    for (std::size_t r = 0; r < reference_.size(); ++r) {
      if (partner_[r] == kNone) ours.emplace(renamed(reference_[r].name), r);
    }
    for (std::size_t s = 0; s < subject_.size(); ++s) {
      if (reference_of_[s] == kNone) theirs.emplace(subject_[s].name, s);
    }
    const auto removed = common_prefix(ours, theirs);
    const auto added = common_prefix(theirs, ours);
    const auto least = std::max<std::size_t>(1, (std::min(ours.size(), theirs.size()) + 1) / 2);
    if (std::max(removed.second, added.second) < least) return;
    const bool longer = removed.second >= added.second;  // the names of the reference
    const auto& prefix = longer ? removed.first : added.first;
    for (std::size_t r = 0; r < reference_.size(); ++r) {
      const auto name = renamed(reference_[r].name);
      if (partner_[r] != kNone || (longer && !name.starts_with(prefix))) continue;
      const auto found = theirs.find(longer ? name.substr(prefix.size()) : prefix + name);
      if (found != theirs.end()) pair(r, found->second);
    }
    add_detail(result_.weights,
               "names of the " + std::string(longer ? "reference" : "subject") + " begin with " + prefix);
  }

  /// The leading part without which most names of `longer` are in `shorter`, and how many.
  static std::pair<std::string, std::size_t> common_prefix(
      const std::unordered_map<std::string, std::size_t>& longer,
      const std::unordered_map<std::string, std::size_t>& shorter) {
    constexpr std::size_t kMostParts = 4;
    std::map<std::string, std::size_t> counts;
    for (const auto& [name, row] : longer) {
      auto dot = name.find('.');
      for (std::size_t part = 0; part < kMostParts && dot != std::string::npos; ++part, dot = name.find('.', dot + 1)) {
        if (shorter.contains(name.substr(dot + 1))) ++counts[name.substr(0, dot + 1)];
      }
    }
    const auto most = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
    if (most == counts.end()) return {};
    return *most;
  }

  /// Several rows of the reference may have one partner: tied weights, which one side lists once.
  void pair(std::size_t r, std::size_t s) {
    partner_[r] = s;
    if (reference_of_[s] == kNone) reference_of_[s] = r;
    ++result_.paired;
  }

  void index_contents() {
    for (std::size_t s = 0; s < subject_.size(); ++s) {
      if (!subject_[s].digest.empty()) holders_[subject_[s].digest].push_back(s);
    }
    for (const auto& tensor : reference_) {
      if (!tensor.digest.empty()) held_in_reference_.emplace(tensor.digest, &tensor);
    }
  }

  void pair_contents() {
    std::unordered_map<std::string_view, std::size_t> next;  // first of the holders that may still be free
    for (std::size_t r = 0; r < reference_.size(); ++r) {
      if (partner_[r] != kNone || reference_[r].digest.empty()) continue;
      const auto found = holders_.find(reference_[r].digest);
      if (found == holders_.end()) continue;
      auto& at = next[found->first];
      while (at < found->second.size() && reference_of_[found->second[at]] != kNone) ++at;
      const auto free = at < found->second.size() ? found->second[at] : found->second.front();
      pair(r, free);
      by_content_[r] = true;
      ++result_.by_content;
      if (renamed_example_.empty()) renamed_example_ = reference_[r].name + " is " + subject_[free].name;
    }
  }

  Precondition& group(Kind a, Kind b) {
    return a == Kind::kBuffer || b == Kind::kBuffer ? result_.buffers : result_.weights;
  }

  void add_pair(std::size_t r) {
    const auto& ours = reference_[r];
    const auto& theirs = subject_[partner_[r]];
    auto& condition = group(ours.kind, theirs.kind);
    const bool same_type = ours.dtype == theirs.dtype && ours.sizes == theirs.sizes;
    if (same_type && (ours.digest.empty() || theirs.digest.empty())) return;
    ++condition.total;
    if (by_content_[r] || (same_type && ours.digest == theirs.digest)) {
      ++condition.same;
    } else if (!same_type) {
      add_detail(condition, ours.name + ": " + type_text(ours) + " in reference, " + type_text(theirs) + " in subject");
    } else {
      const auto held = holders_.find(ours.digest);
      add_detail(
          condition,
          ours.name + ": contents differ" +
              (held == holders_.end() ? "" : "; the subject has them in " + subject_[held->second.front()].name));
    }
  }

  bool counts(const ModelTensor& tensor) const {
    if (!options_.one_sided) return false;
    if (tensor.kind == Kind::kConstant) return options_.constants;
    return tensor.kind != Kind::kBuffer || !options_.lacks_buffers;
  }

  void add_one_sided(const ModelTensor& tensor, const char* side) {
    if (!counts(tensor)) return;
    auto& condition = group(tensor.kind, tensor.kind);
    ++condition.total;
    add_detail(condition, tensor.name + ": only in the " + side + ", " + type_text(tensor));
  }

  void add_missing(std::size_t r) { add_one_sided(reference_[r], "reference"); }

  void add_extra(std::size_t s) {
    if (!subject_[s].digest.empty() && held_in_reference_.contains(subject_[s].digest)) return;  // tied
    add_one_sided(subject_[s], "subject");
  }

  void add_renamed() {
    if (result_.by_content == 0) return;
    add_detail(result_.weights, std::to_string(result_.by_content) + " under other names: " + renamed_example_);
  }

  const std::vector<ModelTensor>& reference_;
  const std::vector<ModelTensor>& subject_;
  const WeightOptions& options_;
  WeightComparison result_;
  std::vector<std::size_t> partner_;       // by row of the reference
  std::vector<std::size_t> reference_of_;  // by row of the subject: the first
  std::vector<bool> by_content_;
  std::unordered_map<std::string_view, std::vector<std::size_t>> holders_;  // rows of the subject by digest
  std::unordered_map<std::string_view, const ModelTensor*> held_in_reference_;
  std::string renamed_example_;
};

std::vector<std::string> split_names(std::string_view joined) {
  std::vector<std::string> names;
  while (!joined.empty()) {
    const auto comma = std::min(joined.find(','), joined.size());
    names.emplace_back(joined.substr(0, comma));
    joined.remove_prefix(std::min(joined.size(), comma + 1));
  }
  return names;
}

void add_trace_tensors(const Trace& trace, std::vector<ModelTensor>& tensors) {
  const auto& params = trace.params;
  for (std::size_t row = 0; row < params.address.size(); ++row) {
    const auto sizes = trace.shapes[params.shape[row]];
    ModelTensor tensor;
    tensor.name = trace.strings[params.address[row]];
    tensor.other_names = split_names(trace.strings[params.all_addresses[row]]);
    std::erase(tensor.other_names, tensor.name);
    tensor.kind =
        params.kind[row] == static_cast<std::uint8_t>(ParamKind::kParameter) ? Kind::kParameter : Kind::kConstant;
    tensor.dtype = static_cast<DType>(params.dtype[row]);
    tensor.sizes.assign(sizes.begin(), sizes.end());
    tensor.digest = trace.strings[params.digest[row]];
    tensors.push_back(std::move(tensor));
  }
  const auto& buffers = trace.buffers;
  for (std::size_t row = 0; row < buffers.address.size(); ++row) {
    const auto sizes = trace.shapes[buffers.shape[row]];
    ModelTensor tensor;
    tensor.name = trace.strings[buffers.address[row]];
    tensor.kind = Kind::kBuffer;
    tensor.dtype = static_cast<DType>(buffers.dtype[row]);
    tensor.sizes.assign(sizes.begin(), sizes.end());
    tensors.push_back(std::move(tensor));
  }
}

}  // namespace

void add_detail(Precondition& condition, std::string text) {
  if (condition.details.size() < kMostDetails) {
    condition.details.push_back(std::move(text));
  } else {
    ++condition.more_details;
  }
}

void settle(Precondition& condition) {
  if (condition.total > 0)
    condition.agreement = condition.same == condition.total ? Agreement::kSame : Agreement::kDifferent;
}

std::vector<ModelTensor> tensors_of(const Side& side) {
  std::vector<ModelTensor> tensors;
  if (side.trace) {
    add_trace_tensors(*side.trace, tensors);
    return tensors;
  }
  for (const auto& param : side.dump->params) {
    tensors.push_back({param.address, param.other_addresses, param.is_buffer ? Kind::kBuffer : Kind::kParameter,
                       param.dtype, param.sizes, param.digest});
  }
  return tensors;
}

WeightComparison compare_weights(const std::vector<ModelTensor>& reference, const std::vector<ModelTensor>& subject,
                                 const WeightOptions& options) {
  return Weights(reference, subject, options).run();
}

}  // namespace tl

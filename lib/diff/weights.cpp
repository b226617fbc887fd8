#include "diff/weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/digest.h"
#include "diff/block_hints.h"
#include "diff/values.h"
#include "diff/weight_relation.h"

namespace tl {
namespace {

std::size_t row_of(std::int64_t row) { return static_cast<std::size_t>(row); }

/// The parameters that a dump holds the values of.
class DumpWeights final : public WeightSource {
 public:
  explicit DumpWeights(const Dump& dump) {
    for (const auto& param : dump.params) {
      if (param.value && param.value->kind() == TensorKind::kStrided) values_.emplace(param.address, param.value);
    }
  }

  std::optional<WeightValue> find(std::string_view address) const override {
    const auto found = values_.find(address);
    if (found == values_.end()) return std::nullopt;
    return WeightValue{found->second->to_host().at(0).tensor, std::nullopt};
  }
  std::vector<std::string> quantised() const override { return {}; }

 private:
  std::unordered_map<std::string_view, TensorRefPtr> values_;
};

/// One side, and what may be had of its weights.
class WeightSide {
 public:
  WeightSide(const Side& of, const Renamer& rename, const WeightSource* source)
      : side(of), params(params_of(of, rename)), source_(source) {
    if (side.dump) {
      dump_.emplace(*side.dump);
      if (!source_) source_ = &*dump_;
    }
    for (std::size_t row = 0; row < params.size(); ++row) {
      by_name.emplace(params[row].name, row);
      by_address.emplace(params[row].address, row);
    }
  }

  /// The value of a parameter, if it is the one that was recorded.
  std::optional<WeightValue> value(const ParamFacts& param) const {
    auto value = source_ ? source_->find(param.address) : std::nullopt;
    if (!value || value->quantiser || param.digest.empty()) return value;
    return packed_digest(value->tensor) == param.digest ? value : std::nullopt;
  }

  /// Quantised tensors that are no parameters by name. The source is asked only where an operation is quantised.
  std::vector<std::pair<std::string, WeightValue>> packed() const {
    std::vector<std::pair<std::string, WeightValue>> values;
    if (!source_ || !runs_quantised()) return values;
    for (auto& address : source_->quantised()) {
      if (by_address.contains(address)) continue;
      if (auto value = source_->find(address)) values.emplace_back(std::move(address), std::move(*value));
    }
    return values;
  }

  const Side& side;
  std::vector<ParamFacts> params;
  std::unordered_map<std::string_view, std::size_t> by_name;
  std::unordered_map<std::string_view, std::size_t> by_address;

 private:
  bool runs_quantised() const {
    return side.trace && std::ranges::any_of(side.trace->instructions.op_name, [&](std::int32_t name) {
             return side.trace->strings[name].starts_with("quantized::");
           });
  }

  const WeightSource* source_;
  std::optional<DumpWeights> dump_;
};

/// Two values where at least one side is quantised.
WeightDifference compare_quantised(const WeightValue& reference, const WeightValue& subject) {
  WeightDifference result;
  result.relation = WeightRelation::kQuantised;
  CompareOptions options;
  if (reference.quantiser) options.reference_quantiser = &*reference.quantiser;
  if (subject.quantiser) options.subject_quantiser = &*subject.quantiser;
  const auto metrics = compare_tensors(reference.tensor, subject.tensor, options);
  result.rel_l2 = metrics.nonfinite_disagreements == 0 ? metrics.rel_l2 : std::numeric_limits<double>::infinity();
  result.sqnr_db = metrics.sqnr_db;
  return result;
}

class WeightExplainer {
 public:
  WeightExplainer(const Side& reference, const Side& subject, const Alignment& alignment, const Renamer& rename,
                  const WeightSources& sources)
      : ours_(reference, rename, sources.reference),
        theirs_(subject, {}, sources.subject),
        alignment_(alignment),
        rename_(rename) {
    if (reference.trace) hints_.emplace(*reference.trace);
  }

  std::vector<WeightDifference> run() {
    for (const auto& param : ours_.params) compare_named(param);
    compare_packed();
    compare_dequantised();
    return std::move(result_);
  }

 private:
  bool is_full() const { return result_.size() >= kMostWeights || bytes_ > kMostWeightBytes; }

  void compare_named(const ParamFacts& ours) {
    const auto named = theirs_.by_name.find(ours.name);
    if (named == theirs_.by_name.end() || is_full()) return;
    const auto& theirs = theirs_.params[named->second];
    const bool same_type = ours.dtype == theirs.dtype && ours.sizes == theirs.sizes;
    if (same_type && (ours.digest.empty() || ours.digest == theirs.digest)) return;
    const auto left = ours_.value(ours);
    const auto right = left ? theirs_.value(theirs) : std::nullopt;
    if (!left || !right) return;
    if (left->quantiser || right->quantiser) {
      if (left->tensor.sizes == right->tensor.sizes)
        add(ours.address, theirs.address, compare_quantised(*left, *right));
      return;
    }
    std::vector<BlockHint> hints;
    if (hints_) hints = hints_->of(ours_.by_address.at(ours.address));
    bytes_ += left->tensor.nbytes() + right->tensor.nbytes();
    add(ours.address, theirs.address, relate_weights(left->tensor, right->tensor, hints), ours.sizes.size());
  }

  void add(const std::string& reference, const std::string& subject, WeightDifference difference,
           std::size_t rank = 0) {
    if (is_full() || !explained_.insert(reference).second) return;
    difference.reference = reference;
    difference.subject = subject;
    difference.text = words_of(difference, rank);
    result_.push_back(std::move(difference));
  }

  /// Packed weights of one side: against those of the same name, else against the parameter of equal shape of the
  /// innermost module around them that has one.
  void compare_packed() {
    const auto ours = ours_.packed();
    const auto theirs = theirs_.packed();
    std::unordered_map<std::string_view, const WeightValue*> by_name;
    for (const auto& [address, value] : theirs) by_name.emplace(address, &value);
    for (const auto& [address, value] : ours) {
      const auto name = rename_ ? rename_(address) : address;
      const auto same = by_name.find(name);
      if (same != by_name.end()) {
        add_packed_pair(address, value, name, *same->second);
      } else if (const auto* param = param_around(theirs_, name, value.tensor.sizes)) {
        const auto other = theirs_.value(*param);
        if (other) add(address, param->address, compare_quantised(value, *other));
      }
    }
    for (const auto& [address, value] : theirs) {
      const auto* param = param_around(ours_, address, value.tensor.sizes);
      const auto other = param ? ours_.value(*param) : std::nullopt;
      if (other) add(param->address, address, compare_quantised(*other, value));
    }
  }

  void add_packed_pair(const std::string& address, const WeightValue& ours, const std::string& name,
                       const WeightValue& theirs) {
    if (ours.tensor.sizes != theirs.tensor.sizes) return;
    auto difference = compare_quantised(ours, theirs);
    if (difference.rel_l2 != 0) add(address, name, std::move(difference));
  }

  static const ParamFacts* param_around(const WeightSide& side, std::string_view address,
                                        const std::vector<std::int64_t>& sizes) {
    const ParamFacts* best = nullptr;
    std::size_t best_length = 0;
    for (const auto& param : side.params) {
      const auto dot = param.name.rfind('.');
      if (param.sizes != sizes || dot == std::string::npos || dot < best_length) continue;
      const auto module = std::string_view(param.name).substr(0, dot + 1);
      if (!address.starts_with(module)) continue;
      best = &param;
      best_length = dot;
    }
    return best;
  }

  /// Parameters of one side where the same argument of the paired operation on the other was dequantised.
  void compare_dequantised() {
    if (!ours_.side.trace || !theirs_.side.trace) return;
    const auto& reference = *ours_.side.trace;
    const auto& subject = *theirs_.side.trace;
    for (std::size_t use = 0; use < reference.param_uses.op.size(); ++use) {
      const auto s = alignment_.subject_of[row_of(reference.param_uses.op[use])];
      if (s >= 0) compare_with_dequantised(ours_, reference, use, theirs_, s);
    }
    for (std::size_t use = 0; use < subject.param_uses.op.size(); ++use) {
      const auto r = alignment_.reference_of[row_of(subject.param_uses.op[use])];
      if (r >= 0) compare_with_dequantised(theirs_, subject, use, ours_, r);
    }
  }

  void compare_with_dequantised(const WeightSide& plain, const Trace& trace, std::size_t use, const WeightSide& other,
                                std::int32_t op) {
    const auto dequantised = dequantised_argument(*other.side.trace, op, trace.param_uses.arg[use]);
    if (dequantised < 0) return;
    const auto address = trace.strings[trace.params.address[row_of(trace.param_uses.param[use])]];
    const auto& param = plain.params[plain.by_address.at(address)];
    const auto value = value_of(other.side, row_of(dequantised));
    if (value.evidence != Evidence::kFull || value.tensor->kind() != TensorKind::kStrided) return;
    if (sizes_of(other.side, row_of(dequantised)) != param.sizes || is_full()) return;
    const auto mine = plain.value(param);
    if (!mine) return;
    const WeightValue stands_for{value.tensor->to_host().at(0).tensor, std::nullopt};
    const auto label = site_ref(other.side, row_of(dequantised)).label;
    if (&plain == &ours_) {
      add(param.address, label, compare_quantised(*mine, stands_for));
    } else {
      add(label, param.address, compare_quantised(stands_for, *mine));
    }
  }

  /// The dequantise operation, looked for through views, behind an argument of an operation; -1 if there is none.
  static std::int32_t dequantised_argument(const Trace& trace, std::int32_t op, std::int16_t argument) {
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
    for (auto edge = begin; edge < end; ++edge) {
      if (trace.edges.arg[edge] != argument) continue;
      auto row = trace.edges.parent[edge];
      while (row >= 0 && trace.ops.kind[row_of(row)] == 0 && !is_quantiser(trace, row_of(row))) {
        if (!is_neutral(trace, row_of(row))) return -1;
        const auto [first, last] = edge_range(trace, OpId{static_cast<std::uint32_t>(row)});
        row = first == last ? -1 : trace.edges.parent[first];
      }
      return row >= 0 && trace.ops.kind[row_of(row)] == 0 ? row : -1;
    }
    return -1;
  }

  WeightSide ours_;
  WeightSide theirs_;
  const Alignment& alignment_;
  const Renamer& rename_;
  std::optional<BlockHints> hints_;
  std::unordered_set<std::string> explained_;
  std::size_t bytes_ = 0;
  std::vector<WeightDifference> result_;
};

}  // namespace

std::string packed_digest(const HostTensor& tensor) {
  const auto packed = to_contiguous(tensor);
  const auto begin = row_of(packed.offset) * item_bytes(packed.dtype);
  return digest_hex(packed.storage.subspan(begin, packed.nbytes()));
}

std::vector<ParamFacts> params_of(const Side& side, const Renamer& rename) {
  std::vector<ParamFacts> params;
  const auto add = [&](std::string address, std::string_view digest, DType dtype, std::vector<std::int64_t> sizes) {
    auto name = rename ? rename(address) : address;
    params.push_back({std::move(address), std::move(name), digest, dtype, std::move(sizes)});
  };
  if (side.dump) {
    for (const auto& param : side.dump->params) {
      if (!param.is_buffer) add(param.address, param.digest, param.dtype, param.sizes);
    }
    return params;
  }
  const auto& trace = *side.trace;
  for (std::size_t row = 0; row < trace.params.address.size(); ++row) {
    const auto sizes = trace.shapes[trace.params.shape[row]];
    add(std::string(trace.strings[trace.params.address[row]]), trace.strings[trace.params.digest[row]],
        static_cast<DType>(trace.params.dtype[row]), {sizes.begin(), sizes.end()});
  }
  return params;
}

std::vector<WeightDifference> explain_weights(const Side& reference, const Side& subject, const Alignment& alignment,
                                              const Renamer& rename, const WeightSources& sources) {
  const auto has_values = [](const Side& side, const WeightSource* source) { return source || side.dump; };
  if (!has_values(reference, sources.reference) && !has_values(subject, sources.subject)) return {};
  return WeightExplainer(reference, subject, alignment, rename, sources).run();
}

}  // namespace tl

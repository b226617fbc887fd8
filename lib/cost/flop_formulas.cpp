#include "cost/flop_formulas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tl {
namespace {

using Sizes = std::span<const std::int64_t>;

FlopCount no_macs(Count flops) { return {flops, flops ? Count(0) : Count()}; }

/// 2 * macs + rest.
FlopCount from_macs(Count macs, Count rest) {
  const auto flops = plus(times(2, macs), rest);
  return {flops, flops ? macs : Count()};
}

Count output_numel(const CallFacts& facts) { return numel(facts.output_sizes()); }

Count arg_numel(const CallFacts& facts, std::size_t position, std::size_t sub = 0) {
  const auto sizes = facts.arg_sizes(position, sub);
  return sizes ? numel(*sizes) : Count();
}

/// The last size; 1 for a tensor without axes.
Count last_size(std::optional<Sizes> sizes) {
  if (!sizes) return {};
  return sizes->empty() ? 1 : sizes->back();
}

FlopCount per_output(const FlopRule& rule, const CallFacts& facts) {
  return no_macs(times(rule.factor, output_numel(facts)));
}

FlopCount per_input(const FlopRule& rule, const CallFacts& facts) {
  if (facts.tensors().empty()) return {};
  return no_macs(times(rule.factor, numel(facts.tensors().front().sizes)));
}

FlopCount per_argument(const FlopRule& rule, const CallFacts& facts) {
  return no_macs(arg_numel(facts, static_cast<std::size_t>(rule.factor)));
}

/// input [*, in], output [*, out]: in multiply-adds an output element, one addition where there is a bias.
FlopCount linear(const FlopRule& rule, const CallFacts& facts) {
  const auto out = output_numel(facts);
  const auto rest = plus(facts.has_tensor(2) ? out : Count(0), times(rule.factor, out));
  return from_macs(times(out, last_size(facts.arg_sizes(0))), rest);
}

/// Elements of a weight without its first axis.
Count numel_behind_first(std::optional<Sizes> sizes) {
  return sizes && !sizes->empty() ? numel(sizes->subspan(1)) : Count();
}

/// weight [in, out / groups, k…]: every input element meets out / groups * prod(k) weights.
FlopCount transposed_convolution(const FlopRule&, const CallFacts& facts) {
  const auto macs = times(arg_numel(facts, 0), numel_behind_first(facts.arg_sizes(1)));
  return from_macs(macs, facts.has_tensor(2) ? output_numel(facts) : Count(0));
}

/// weight [out, in / groups, k…]: every output element meets in / groups * prod(k) weights.
FlopCount convolution(const FlopRule& rule, const CallFacts& facts) {
  if (facts.boolean("transposed").value_or(false)) return transposed_convolution(rule, facts);
  const auto macs = times(output_numel(facts), numel_behind_first(facts.arg_sizes(1)));
  return from_macs(macs, facts.has_tensor(2) ? output_numel(facts) : Count(0));
}

/// The first operand's last axis is contracted.
FlopCount matmul(const FlopRule&, const CallFacts& facts) {
  return from_macs(times(output_numel(facts), last_size(facts.arg_sizes(0))), 0);
}

/// tensor + first @ second, where addbmm also sums over the batch.
FlopCount add_matmul(const FlopRule&, const CallFacts& facts) {
  const auto second = facts.arg_sizes(2);
  if (!second) return {};
  const auto columns = second->size() < 2 ? Count(1) : last_size(second);
  return from_macs(times(arg_numel(facts, 1), columns), output_numel(facts));
}

/// query [*, q, d], key [*, k, d], value [*, k, v]: scores, softmax and scale (6 a score), weighted sum.
FlopCount attention(const FlopRule&, const CallFacts& facts) {
  const auto query = facts.arg_sizes(0);
  const auto key = facts.arg_sizes(1);
  const auto value = facts.arg_sizes(2);
  if (!query || !key || !value || query->size() < 2 || key->size() < 2 || value->empty()) return {};
  const auto keys = Count((*key)[key->size() - 2]);
  const auto scores = times(numel(query->first(query->size() - 1)), keys);
  return from_macs(times(scores, plus(query->back(), value->back())), times(6, scores));
}

FlopCount pool(const FlopRule& rule, const CallFacts& facts) {
  const auto kernel = facts.ints("kernel_size");
  if (!kernel || kernel->empty()) return {};
  Count window = numel(*kernel);
  // One number stands for a window that is as long in every axis.
  for (int axis = 1; kernel->size() == 1 && axis < rule.factor; ++axis) window = times(window, kernel->front());
  return no_macs(times(output_numel(facts), window));
}

FlopCount sort(const FlopRule&, const CallFacts& facts) {
  const auto sizes = facts.arg_sizes(0);
  const auto out = output_numel(facts);
  if (!sizes || !out) return {};
  std::int64_t length = 1;
  if (!sizes->empty()) {
    const auto rank = static_cast<std::int64_t>(sizes->size());
    const auto given = facts.ints("dim");
    auto axis = given && !given->empty() ? given->front() : -1;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return {};
    length = (*sizes)[static_cast<std::size_t>(axis)];
  }
  if (length <= 1 || *out == 0) return no_macs(0);
  const double flops = static_cast<double>(*out) * std::log2(static_cast<double>(length));
  if (flops >= static_cast<double>(std::numeric_limits<std::int64_t>::max())) return {};
  return no_macs(static_cast<std::int64_t>(flops));
}

/// The sizes that the letters of an equation stand for; those of `...` are collected from the right.
class EinsumSizes {
 public:
  bool add(std::string_view letters, Sizes sizes) {
    std::string plain;
    for (const char c : letters) {
      if (c != ' ') plain += c;
    }
    const auto dots = plain.find("...");
    const auto named = dots == std::string::npos ? plain.size() : plain.size() - 3;
    if (named > sizes.size() || (dots == std::string::npos && named != sizes.size())) return false;
    const auto before = dots == std::string::npos ? plain.size() : dots;
    for (std::size_t i = 0; i < before; ++i) {
      if (!set(plain[i], sizes[i])) return false;
    }
    const auto behind = plain.size() - std::min(plain.size(), before + 3);
    for (std::size_t i = 0; i < behind; ++i) {
      if (!set(plain[plain.size() - 1 - i], sizes[sizes.size() - 1 - i])) return false;
    }
    add_ellipsis(sizes.subspan(before, sizes.size() - before - behind));
    return true;
  }

  Count product() const { return times(numel(letters_), numel(ellipsis_)); }

 private:
  bool set(char letter, std::int64_t size) {
    const auto upper = letter >= 'A' && letter <= 'Z';
    if (!upper && (letter < 'a' || letter > 'z')) return false;
    auto& known = letters_[static_cast<std::size_t>(upper ? letter - 'A' + 26 : letter - 'a')];
    known = std::max(known, size);  // a size of one is broadcast
    return size >= 0;
  }

  void add_ellipsis(Sizes sizes) {
    if (ellipsis_.size() < sizes.size()) ellipsis_.insert(ellipsis_.begin(), sizes.size() - ellipsis_.size(), 1);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      auto& known = ellipsis_[ellipsis_.size() - 1 - i];
      known = std::max(known, sizes[sizes.size() - 1 - i]);
    }
  }

  std::array<std::int64_t, 52> letters_ = [] {
    std::array<std::int64_t, 52> ones{};
    ones.fill(1);
    return ones;
  }();
  std::vector<std::int64_t> ellipsis_;
};

/// One multiply-add for every combination of the letters of both operands.
FlopCount einsum(const FlopRule&, const CallFacts& facts) {
  const auto equation = facts.string("equation");
  const auto first = facts.arg_sizes(1, 0);
  const auto second = facts.arg_sizes(1, 1);
  if (!equation || !first || !second || facts.arg_sizes(1, 2)) return {};
  const auto inputs = std::string_view(*equation).substr(0, equation->find("->"));
  const auto comma = inputs.find(',');
  if (comma == std::string_view::npos || inputs.find(',', comma + 1) != std::string_view::npos) return {};
  if (numel(*first) == 0 || numel(*second) == 0) return from_macs(0, 0);
  EinsumSizes sizes;
  if (!sizes.add(inputs.substr(0, comma), *first) || !sizes.add(inputs.substr(comma + 1), *second)) return {};
  return from_macs(sizes.product(), 0);
}

struct RecurrentKind {
  std::int64_t gates;
  std::int64_t per_hidden;  ///< operations a hidden unit and step behind the matrix products and their biases
};

bool is_recurrent_weight(std::string_view name) {
  constexpr std::string_view kNames[] = {"params", "w_ih", "w_hh", "b_ih", "b_hh"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

/// Every weight matrix meets every step of every sample once, every bias is added once, and the gates of each layer
/// and direction are worked out. Weights come as w_ih [gates * h, in], w_hh [gates * h, h], biases, and w_hr [p, h]
/// where the hidden state is projected.
FlopCount recurrent(const RecurrentKind& kind, const CallFacts& facts) {
  const auto input = facts.arg_sizes(0);
  const auto elements = arg_numel(facts, 0);
  if (!input || input->empty() || !elements || input->back() <= 0) return {};
  const auto steps = Count(*elements / input->back());
  Count macs = 0;
  Count rest = 0;
  std::int64_t rows = 0;
  int matrices = 0;
  for (const auto& arg : facts.tensors()) {
    if (!is_recurrent_weight(facts.arg_name(static_cast<std::size_t>(arg.position)))) continue;
    const auto sizes = arg.sizes;
    if (sizes.size() == 1) rest = plus(rest, times(steps, sizes[0]));
    if (sizes.size() != 2) continue;
    macs = plus(macs, times(steps, numel(sizes)));
    if (matrices == 0) rows = sizes[0];
    if (sizes[0] != rows) continue;  // a projection
    if (matrices++ % 2 == 0) rest = plus(rest, times(steps, times(rows / kind.gates, kind.per_hidden)));
  }
  if (matrices == 0) return {};
  return from_macs(macs, rest);
}

// Sigmoid 4, tanh 6, relu, sums and products 1 each, as elsewhere.
FlopCount lstm(const FlopRule&, const CallFacts& facts) {
  return recurrent({4, 4 + 3 * 4 + 6 + 3 + 6 + 1}, facts);  // c' = f * c + i * g, h' = o * tanh(c')
}
FlopCount gru(const FlopRule&, const CallFacts& facts) {
  return recurrent({3, 2 * (1 + 4) + (2 + 6) + 3}, facts);  // n = tanh(i + r * h), h' = (h - n) * z + n
}
FlopCount rnn_tanh(const FlopRule&, const CallFacts& facts) { return recurrent({1, 1 + 6}, facts); }
FlopCount rnn_relu(const FlopRule&, const CallFacts& facts) { return recurrent({1, 1 + 1}, facts); }

FlopCount zero(const FlopRule&, const CallFacts&) { return no_macs(0); }
FlopCount unknown(const FlopRule&, const CallFacts&) { return {}; }

using Formula = FlopCount (*)(const FlopRule&, const CallFacts&);

struct FormulaRow {
  FlopFormula formula;
  Formula function;
};

constexpr FormulaRow kFormulas[] = {
    {FlopFormula::kUnknown, unknown},
    {FlopFormula::kZero, zero},
    {FlopFormula::kGather, zero},
    {FlopFormula::kOverwrite, zero},
    {FlopFormula::kPerOutput, per_output},
    {FlopFormula::kPerInput, per_input},
    {FlopFormula::kPerArgument, per_argument},
    {FlopFormula::kLinear, linear},
    {FlopFormula::kConvolution, convolution},
    {FlopFormula::kTransposedConvolution, transposed_convolution},
    {FlopFormula::kMatmul, matmul},
    {FlopFormula::kAddMatmul, add_matmul},
    {FlopFormula::kAttention, attention},
    {FlopFormula::kPool, pool},
    {FlopFormula::kSort, sort},
    {FlopFormula::kEinsum, einsum},
    {FlopFormula::kLstm, lstm},
    {FlopFormula::kGru, gru},
    {FlopFormula::kRnnTanh, rnn_tanh},
    {FlopFormula::kRnnRelu, rnn_relu},
};

constexpr bool is_indexed_by_formula() {
  for (std::size_t i = 0; i < std::size(kFormulas); ++i) {
    if (static_cast<std::size_t>(kFormulas[i].formula) != i) return false;
  }
  return std::size(kFormulas) == static_cast<std::size_t>(FlopFormula::kRnnRelu) + 1;
}
static_assert(is_indexed_by_formula(), "kFormulas: one row a formula, in the order of the enum");

}  // namespace

FlopCount count_flops(const FlopRule& rule, const CallFacts& facts) {
  return kFormulas[static_cast<std::size_t>(rule.formula)].function(rule, facts);
}

}  // namespace tl

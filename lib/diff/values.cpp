#include "diff/values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"
#include "tensor/decode.h"
#include "tensor/element.h"

namespace tl {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// The elements of a value, and how to read them.
struct Elements {
  HostTensor tensor;
  std::optional<Quantiser> quantiser;
};

const HostTensor* part(const std::vector<TensorPart>& parts, std::string_view suffix) {
  const auto found = std::ranges::find(parts, suffix, &TensorPart::suffix);
  return found == parts.end() ? nullptr : &found->tensor;
}

Quantiser quantiser_of(const std::vector<TensorPart>& parts) {
  Quantiser quantiser;
  const auto* scale = part(parts, ".scale");
  const auto* zero = part(parts, ".zero_point");
  if (scale) quantiser.scales = all_doubles(*scale);
  if (zero) quantiser.zero_points = all_doubles(*zero);
  quantiser.zero_points.resize(quantiser.scales.size(), 0);
  if (const auto* axis = part(parts, ".axis")) quantiser.axis = static_cast<std::int64_t>(all_doubles(*axis).at(0));
  return quantiser;
}

std::optional<Elements> elements_of(const TensorRef& ref) {
  const auto parts = ref.to_host();
  const auto* main = part(parts, "");
  if (!main) return std::nullopt;
  Elements elements{*main, std::nullopt};
  if (ref.kind() == TensorKind::kQuantised) elements.quantiser = quantiser_of(parts);
  return elements;
}

bool is_fractional(DType dtype) { return is_floating(dtype) || is_complex(dtype) || is_quantised(dtype); }

void fill_worst(const HostTensor& reference, const HostTensor& subject, bool sampled, DiffSite& site) {
  const auto worst = site.metrics->worst_index;
  if (worst < 0) return;
  site.worst_at =
      coordinates_of(worst, site.reference.sizes.empty() && !sampled ? reference.sizes : site.reference.sizes);
  if (sampled) return;
  site.worst_reference = format_element(reference, worst);
  site.worst_subject = format_element(subject, worst);
}

/// What two tensors have beside the constant of a mask.
struct Unmasked {
  double difference_l2 = 0;
  double scale = 0;
};

/// Masks put one large constant into both sides (-1e4, -1e9, the least number of the type), beside which any other
/// difference vanishes. nullopt unless the elements of the greatest magnitude are equal on both sides and all others
/// smaller by three orders.
std::optional<Unmasked> without_mask(const HostTensor& reference, const HostTensor& subject, double greatest) {
  constexpr double kRatio = 1e3;
  constexpr std::int64_t kBlock = 1 << 14;
  const auto left = to_contiguous(reference);
  const auto right = to_contiguous(subject);
  const auto bytes_of = [](const HostTensor& tensor, std::int64_t first, std::size_t count) {
    const auto item = item_bytes(tensor.dtype);
    return tensor.storage.subspan(static_cast<std::size_t>(tensor.offset + first) * item, count * item);
  };
  std::vector<double> ours(kBlock), theirs(kBlock);
  double difference = 0, reference_squares = 0, subject_squares = 0, rest = 0;
  std::int64_t masked = 0;
  for (std::int64_t first = 0; first < left.numel(); first += kBlock) {
    const auto count = static_cast<std::size_t>(std::min(kBlock, left.numel() - first));
    decode_doubles(left.dtype, bytes_of(left, first, count), std::span(ours).first(count));
    decode_doubles(right.dtype, bytes_of(right, first, count), std::span(theirs).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      const auto r = ours[i], s = theirs[i];
      if (!std::isfinite(r) || !std::isfinite(s)) continue;
      if (r == s && std::abs(r) == greatest) {
        ++masked;
        continue;
      }
      rest = std::max({rest, std::abs(r), std::abs(s)});
      if (rest * kRatio > greatest) return std::nullopt;
      difference += (s - r) * (s - r);
      reference_squares += r * r;
      subject_squares += s * s;
    }
  }
  if (masked == 0) return std::nullopt;
  return Unmasked{std::sqrt(difference), std::sqrt(std::max(reference_squares, subject_squares))};
}

void leave_out_mask(const HostTensor& reference, const HostTensor& subject, DiffSite& site) {
  constexpr double kLeastMask = 1e3;
  const auto& metrics = *site.metrics;
  const bool real = is_floating(reference.dtype) && is_floating(subject.dtype);
  if (!real || metrics.reference_max < kLeastMask || site.error == 0 || std::isinf(site.error)) return;
  const auto unmasked = without_mask(reference, subject, metrics.reference_max);
  if (!unmasked || unmasked->scale == 0) return;
  site.scale = unmasked->scale;
  site.error = unmasked->difference_l2 / unmasked->scale;
}

/// Sparse tensors: the values where the indices are the same; infinitely far apart where they are not.
void compare_parts(const TensorRef& reference, const TensorRef& subject, const CompareOptions& options,
                   DiffSite& site) {
  const auto ours = reference.to_host();
  const auto theirs = subject.to_host();
  for (const auto& piece : ours) {
    const auto* other = part(theirs, piece.suffix);
    if (!other || other->numel() != piece.tensor.numel()) {
      site.error = kInfinite;
      continue;
    }
    const auto metrics = compare_tensors(piece.tensor, *other, options);
    if (piece.suffix == ".values") {
      site.metrics = metrics;
      site.scale = std::max(metrics.reference_l2, metrics.subject_l2);
      site.error = std::max(site.error, error_of(metrics, piece.tensor.dtype, other->dtype));
    } else if (!metrics.equal()) {
      site.error = kInfinite;
    }
  }
}

void compare_elements(const Elements& reference, const Elements& subject, bool sampled, CompareOptions options,
                      DiffSite& site) {
  if (reference.quantiser) options.reference_quantiser = &*reference.quantiser;
  if (subject.quantiser) options.subject_quantiser = &*subject.quantiser;
  if (sampled) {
    const bool by_channel =
        (reference.quantiser && reference.quantiser->axis >= 0) || (subject.quantiser && subject.quantiser->axis >= 0);
    if (by_channel) {
      site.evidence = Evidence::kShape;
      return;
    }
    site.metrics = compare_samples(reference.tensor, subject.tensor, checked_numel(site.reference.sizes), options);
  } else if (reference.tensor.numel() != subject.tensor.numel()) {
    site.error = kInfinite;
    return;
  } else {
    site.metrics = compare_tensors(reference.tensor, subject.tensor, options);
  }
  site.error = error_of(*site.metrics, site.reference.dtype, site.subject.dtype);
  site.scale = std::max(site.metrics->reference_l2, site.metrics->subject_l2);
  if (!sampled && !reference.quantiser && !subject.quantiser) leave_out_mask(reference.tensor, subject.tensor, site);
  fill_worst(reference.tensor, subject.tensor, sampled, site);
}

}  // namespace

double error_of(const TensorComparison& metrics, DType reference, DType subject) {
  if (metrics.nonfinite_disagreements > 0) return kInfinite;
  if (metrics.equal() || metrics.numel == 0) return 0;
  if (!is_fractional(reference) && !is_fractional(subject)) {
    return static_cast<double>(metrics.differing) / static_cast<double>(metrics.numel);
  }
  const auto scale = std::max(metrics.reference_l2, metrics.subject_l2);
  return scale > 0 ? std::sqrt(metrics.mse * static_cast<double>(metrics.compared)) / scale : 0;
}

void compare_values(const Side& reference, std::size_t reference_row, const Side& subject, std::size_t subject_row,
                    const ValueOptions& options, DiffSite& site) {
  const auto ours = value_of(reference, reference_row);
  const auto theirs = value_of(subject, subject_row);
  site.evidence = std::min(ours.evidence, theirs.evidence);
  if (site.evidence == Evidence::kShape) return;
  if (site.evidence == Evidence::kStatistics) {
    const auto stats = [](const SideValue& value) {
      if (value.evidence != Evidence::kFull) return value.statistics;
      const auto elements = elements_of(*value.tensor);
      return elements ? known_stats(compute_stats(elements->tensor)) : KnownStats{};
    };
    site.statistics = compare_statistics(stats(ours), stats(theirs));
    site.error =
        site.statistics->same_counts ? std::max(site.statistics->rel_l2_at_least, site.statistics->drift) : kInfinite;
    if (!site.statistics->any) site.evidence = Evidence::kShape;
    return;
  }
  const CompareOptions compare{.rtol = options.rtol,
                               .atol = options.atol,
                               .equal_nan = options.equal_nan,
                               .equal_inf = options.equal_inf,
                               .reference_quantiser = nullptr,
                               .subject_quantiser = nullptr};
  if (ours.tensor->kind() == TensorKind::kSparse && theirs.tensor->kind() == TensorKind::kSparse) {
    return compare_parts(*ours.tensor, *theirs.tensor, compare, site);
  }
  const auto left = elements_of(*ours.tensor);
  const auto right = elements_of(*theirs.tensor);
  if (!left || !right) {
    site.evidence = Evidence::kShape;
    return;
  }
  compare_elements(*left, *right, site.evidence == Evidence::kSampled, compare, site);
  const bool is_output = site.subject.func_name == "output" || site.reference.func_name == "output";
  constexpr std::int64_t kClasses = 10;  // a last axis of as many is looked at as scores of classes
  if (is_output && site.evidence == Evidence::kFull && !left->tensor.sizes.empty() &&
      left->tensor.sizes.back() >= kClasses && is_floating(left->tensor.dtype)) {
    site.top_k = compare_top_k(left->tensor, right->tensor, 5);
  }
}

}  // namespace tl

#include "diff/cause.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tl {
namespace {

constexpr double kGain = 32;             // of operations in general
constexpr double kBoundedGain = 2;       // of those that cannot enlarge a difference: rounding, derivatives up to 1.13
constexpr double kFlipShare = 0.05;      // share of integers that rounding before them may turn
constexpr std::size_t kMostInputs = 64;  // that are kept of what an operation without a partner read
constexpr double kSlack = 10;            // noise floors that pass
constexpr double kNarrowSlack = 4;       // of types of 16 bits and fewer

/// Operations that take a mean off what they read.
constexpr std::array<std::string_view, 7> kCentring = {
    "layernorm", "nativelayernorm", "groupnorm", "nativegroupnorm", "instancenorm", "batchnorm", "nativebatchnorm"};

/// Operations with ‖f(a) − f(b)‖ ≤ ‖a − b‖ up to a factor near 1, summed over their arguments.
constexpr std::array<std::string_view, 69> kBounded = {"abs",         "adaptiveavgpool2d",
                                                       "add",         "alias",
                                                       "avgpool2d",   "cat",
                                                       "chunk",       "clamp",
                                                       "clampmax",    "clampmin",
                                                       "clone",       "concat",
                                                       "contiguous",  "dequantize",
                                                       "detach",      "dropout",
                                                       "elu",         "embedding",
                                                       "expand",      "expandas",
                                                       "flatten",     "flip",
                                                       "gather",      "gelu",
                                                       "getitem",     "hardsigmoid",
                                                       "hardswish",   "hardtanh",
                                                       "identity",    "index",
                                                       "indexselect", "leakyrelu",
                                                       "logsoftmax",  "maskedfill",
                                                       "maximum",     "maxpool2d",
                                                       "minimum",     "mish",
                                                       "movedim",     "narrow",
                                                       "neg",         "pad",
                                                       "permute",     "relu",
                                                       "relu6",       "repeat",
                                                       "reshape",     "roll",
                                                       "safesoftmax", "select",
                                                       "sigmoid",     "silu",
                                                       "slice",       "softmax",
                                                       "split",       "splitwithsizes",
                                                       "squeeze",     "stack",
                                                       "sub",         "t",
                                                       "tanh",        "tile",
                                                       "to",          "transpose",
                                                       "unbind",      "unflatten",
                                                       "unsqueeze",   "view",
                                                       "where"};

std::size_t row_of(std::int64_t value) { return static_cast<std::size_t>(value); }

double difference_norm(const DiffSite& site) {
  return site.metrics ? std::sqrt(site.metrics->mse * static_cast<double>(site.metrics->compared)) : -1;
}

bool is_counted(const DiffSite& site) { return unit_roundoff(site.subject.dtype) == 0; }

/// Ops that only one side has are looked through; what was found so far of one row.
struct Reach {
  std::vector<std::int64_t> sites;
  bool indirect = false;  ///< ops without a partner stand between
  bool unknown = false;   ///< an input without a partner or without a value stands behind it
};

void drop_repeated(std::vector<std::int64_t>& sites) {
  std::ranges::sort(sites);
  const auto repeated = std::ranges::unique(sites);
  sites.erase(repeated.begin(), repeated.end());
}

class CauseFinder {
 public:
  CauseFinder(bool coarser, const Judge& judge, std::vector<DiffSite>& sites, const CentringGain& centring)
      : coarser_(coarser),
        judge_(judge),
        centring_(centring),
        sites_(sites),
        roundoff_(sites.size(), 0),
        origin_(sites.size(), false) {}

  void walk(const Side& graph, const std::vector<std::int64_t>& site_of) {
    const auto& trace = *graph.trace;
    std::vector<Reach> through(graph.size());
    for (std::size_t op = 0; op < graph.size(); ++op) {
      Reach reach = reach_of(trace, site_of, through, op);
      const auto site = site_of[op];
      const bool has_value = site >= 0 && sites_[row_of(site)].evidence != Evidence::kShape;
      if (site >= 0) {
        const auto depth = std::max<std::int64_t>(1, trace.ops.max_distance_from_input[op]);
        settle(site, reach, depth, layer_type(trace, OpId{static_cast<std::uint32_t>(op)}));
        for (auto outer = site + 1; is_outer(outer); ++outer) settle(outer, {.sites = {outer - 1}}, depth, "");
      } else {
        reach.indirect = reach.indirect || graph.kind[op] == OpKind::kOperation;
      }
      if (has_value) continue;
      reach.unknown = reach.unknown || graph.kind[op] == OpKind::kInput || reach.sites.size() > kMostInputs;
      if (reach.sites.size() > kMostInputs) reach.sites.resize(kMostInputs);
      through[op] = std::move(reach);
    }
    keep_what_explains();
  }

  /// Without edges every site may read all that come before it: the one with the greatest error stands for them. Below
  /// the first source nothing can be told from what only carries its error.
  void walk_in_order() {
    Reach before;
    std::int64_t depth = 0;
    bool found = false;
    for (std::size_t row = 0; row < sites_.size(); ++row) {
      auto& site = sites_[row];
      settle(static_cast<std::int64_t>(row), before, ++depth, "");
      if (site.site_class == SiteClass::kSource && found) site.site_class = SiteClass::kInherited;
      found = found || site.site_class == SiteClass::kSource;
      if (site.evidence == Evidence::kShape && site.error == 0) continue;
      if (before.sites.empty() || site.error >= sites_[row_of(before.sites[0])].error) {
        before.sites = {static_cast<std::int64_t>(row)};
      }
    }
    keep_what_explains();
  }

 private:
  Reach reach_of(const Trace& trace, const std::vector<std::int64_t>& site_of, const std::vector<Reach>& through,
                 std::size_t op) const {
    Reach reach;
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
    for (auto edge = begin; edge < end; ++edge) {
      const auto parent = row_of(trace.edges.parent[edge]);
      const auto site = read_by(op, site_of[parent]);
      if (site >= 0 && sites_[row_of(site)].evidence != Evidence::kShape) {
        reach.sites.push_back(site);
      } else {
        const auto& behind = through[parent].sites;
        reach.sites.insert(reach.sites.end(), behind.begin(), behind.end());
        reach.indirect = reach.indirect || through[parent].indirect;
        reach.unknown = reach.unknown || through[parent].unknown;
      }
      add_earlier_writers(trace, site_of, parent, reach);
    }
    drop_repeated(reach.sites);
    return reach;
  }

  /// An edge to a write says which storage was read, not which bytes of it: they may be those that an earlier write
  /// through another view left there, as in a cache whose slots are filled one after the other. Such writes hang on
  /// each other by edges that are no arguments.
  void add_earlier_writers(const Trace& trace, const std::vector<std::int64_t>& site_of, std::size_t writer,
                           Reach& reach) const {
    for (std::size_t steps = 0; steps < kMostInputs && (trace.ops.flags[writer] & kOpInPlace); ++steps) {
      const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(writer)});
      auto edge = begin;
      while (edge < end && trace.edges.arg[edge] != -1) ++edge;
      if (edge == end) return;
      writer = row_of(trace.edges.parent[edge]);
      const auto site = site_of[writer];
      if (site < 0 || sites_[row_of(site)].evidence == Evidence::kShape) continue;
      reach.sites.push_back(site);
      reach.indirect = true;
    }
  }

  /// The site of an entry around the one of the site before it, with the same operation.
  bool is_outer(std::int64_t site) const { return row_of(site) < sites_.size() && sites_[row_of(site)].inner >= 0; }

  /// Of the entries that an operation stands for, from its innermost site on, the one whose value `op` reads.
  std::int64_t read_by(std::size_t op, std::int64_t site) const {
    if (site < 0) return site;
    auto read = site;
    for (auto outer = site + 1; is_outer(outer); ++outer) {
      if (static_cast<std::int64_t>(op) >= sites_[row_of(outer)].read_from) read = outer;
    }
    return read;
  }

  void settle(std::int64_t row, const Reach& reach, std::int64_t depth, std::string_view type) {
    auto& site = sites_[row_of(row)];
    site.inputs = reach.sites;
    const auto mine = unit_roundoff(site.reference.dtype);
    const auto other = unit_roundoff(site.subject.dtype);
    auto& roundoff = roundoff_[row_of(row)];
    roundoff = mine == 0 || other == 0 ? std::max(mine, other)
               : coarser_              ? std::max(mine, other)
                                       : std::min(mine, other);
    for (const auto input : site.inputs) roundoff = std::max(roundoff, roundoff_[row_of(input)]);
    site.noise_floor = is_counted(site) ? 0 : noise_floor(roundoff, depth);
    if (site.evidence == Evidence::kShape && site.error == 0) return;
    const auto judgement = judge_(site, depth);
    site.within = judgement.within;
    site.tolerance = judgement.tolerance;
    site.failed_rule = judgement.failed_rule;
    site.judged = !judgement.ignored;
    for (std::size_t i = 0; i < site.inputs.size(); ++i) {
      const auto& given = sites_[row_of(site.inputs[i])];
      if (i > 0 && given.error <= site.input_error) continue;
      site.input_error = given.error;
      site.input_floor = given.noise_floor;
    }
    if (site.input_error > 0) site.amplification = site.error / site.input_error;
    const bool agrees = site.within && judge_by_floor(site, depth).within;
    site.site_class = agrees ? SiteClass::kAgrees : classify(site, reach, type);
    origin_[row_of(row)] = site.site_class == SiteClass::kSource || has_origin(site);
  }

  bool has_origin(const DiffSite& site) const {
    return std::ranges::any_of(site.inputs, [&](std::int64_t input) { return origin_[row_of(input)]; });
  }

  SiteClass classify(const DiffSite& site, const Reach& reach, std::string_view type) const {
    if (site.error > explained(site, type, reach.indirect) + site.noise_floor ||
        (site.error > 0 && site.input_error == 0)) {
      return reach.unknown ? SiteClass::kUndetermined : SiteClass::kSource;
    }
    return has_origin(site) ? SiteClass::kInherited : SiteClass::kDrift;
  }

  /// Of what passes, only a source that something failing inherits from stays one.
  void keep_what_explains() {
    std::vector<bool> wanted(sites_.size(), false);
    for (auto row = sites_.size(); row-- > 0;) {
      auto& site = sites_[row];
      const bool fails = is_judged(site) && !site.within;
      if (site.site_class == SiteClass::kInherited && (fails || wanted[row])) {
        for (const auto input : site.inputs) wanted[row_of(input)] = wanted[row_of(input)] || origin_[row_of(input)];
      }
      site.explains = site.site_class == SiteClass::kSource && !fails && wanted[row];
      if (site.within && is_compared(site) && !site.explains) site.site_class = SiteClass::kAgrees;
    }
  }

  /// The error that what it read may have become.
  double explained(const DiffSite& site, std::string_view type, bool indirect) const {
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    double norm = 0;
    double relative = 0;
    bool agree = true;
    for (const auto input : site.inputs) {
      const auto& given = sites_[row_of(input)];
      if (std::isinf(given.error) || (is_counted(given) && given.error > 0)) return kInfinite;
      relative += given.error;
      agree = agree && given.error <= given.noise_floor;
      const auto difference = difference_norm(given);
      if (difference < 0 || norm < 0 || !site.metrics) {
        norm = -1;
        continue;
      }
      const auto repeats =
          static_cast<double>(site.metrics->numel) / std::max<double>(1, static_cast<double>(given.metrics->numel));
      norm += difference * std::sqrt(std::max(1.0, repeats));
    }
    if (is_counted(site)) return relative > 0 ? (site.error <= kFlipShare ? kInfinite : kGain * relative) : 0;
    const auto kind = canonical_type(type);
    const bool bounded = std::ranges::find(kBounded, kind) != kBounded.end();
    if (bounded && norm >= 0 && !indirect && site.scale > 0) return kBoundedGain * norm / site.scale;
    if (centring_ && std::ranges::find(kCentring, kind) != kCentring.end())
      return kGain * relative * greatest_centring(site);
    return agree ? 0 : kGain * relative;
  }

  double greatest_centring(const DiffSite& site) const {
    double gain = 1;
    for (const auto input : site.inputs) gain = std::max(gain, centring_(sites_[row_of(input)]));
    return gain;
  }

  bool coarser_;
  const Judge& judge_;
  const CentringGain& centring_;
  std::vector<DiffSite>& sites_;
  std::vector<double> roundoff_;  ///< the coarsest on the way to each site
  std::vector<bool> origin_;      ///< a source, or below one
};

}  // namespace

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kC128:
      return 0x1p-53;
    case DType::kF32:
    case DType::kC64:
      return 0x1p-24;
    case DType::kF16:
    case DType::kC32:
      return 0x1p-11;
    case DType::kBF16:
    case DType::kQI8:
    case DType::kQU8:
      return 0x1p-8;
    case DType::kQI32:
      return 0x1p-24;
    case DType::kF8E4M3:
    case DType::kF8E4M3FNUZ:
      return 0x1p-4;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
      return 0x1p-3;
    default:
      return 0;
  }
}

double noise_floor(double unit_roundoff, std::int64_t depth) {
  const double c = unit_roundoff < 0x1p-20 ? 16 : 1;
  return c * unit_roundoff * std::sqrt(static_cast<double>(std::max<std::int64_t>(1, depth)));
}

Judgement judge_by_floor(const DiffSite& site, std::int64_t depth) {
  // 16 units of f32 on the one hand, one of f16 on the other lie far to both sides of this.
  const bool is_narrow = site.noise_floor > noise_floor(0x1p-21, depth);
  Judgement judgement;
  judgement.tolerance = (is_narrow ? kNarrowSlack : kSlack) * site.noise_floor;
  judgement.within = site.error <= judgement.tolerance;
  return judgement;
}

void find_causes(const Side& graph, const std::vector<std::int64_t>& site_of, bool coarser_roundoff, const Judge& judge,
                 std::vector<DiffSite>& sites, const CentringGain& centring) {
  CauseFinder(coarser_roundoff, judge, sites, centring).walk(graph, site_of);
}

void find_causes_in_order(bool coarser_roundoff, const Judge& judge, std::vector<DiffSite>& sites) {
  CauseFinder(coarser_roundoff, judge, sites, {}).walk_in_order();
}

}  // namespace tl

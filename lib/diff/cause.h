#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "diff/align.h"
#include "diff/report.h"
#include "diff/side.h"

namespace tl {

/// Error that rounding alone explains at a site, in rel L2: c · u · √depth, with u the unit roundoff of the coarser
/// element type on the way to it (2^-24 for f32, 2^-8 for bf16) and depth the greatest number of edges from an input.
/// Errors of many roundings add up as a random walk, hence the root (Higham, Accuracy and Stability of Numerical
/// Algorithms, 2.8). c is 16 where sums are accumulated in the element type (f32, f64), 1 for 16-bit and narrower
/// types, which kernels accumulate in f32.
double noise_floor(double unit_roundoff, std::int64_t depth);
/// Unit roundoff of an element type; 0 for integers and bool, which do not round.
double unit_roundoff(DType dtype);

struct Judgement {
  bool within = true;
  double tolerance = 0;
  std::string failed_rule;
  bool ignored = false;
};
/// Decides whether a compared site passes. `depth` as for noise_floor.
using Judge = std::function<Judgement(const DiffSite& site, std::int64_t depth)>;
/// Error ≤ 10 noise floors (4 of types of 16 bits and fewer, whose floor has room already); integers and bools must be
/// equal.
Judgement judge_by_floor(const DiffSite& site, std::int64_t depth);

/// ‖x‖ / ‖x - mean(x)‖ of a compared value, at least 1: what taking its mean off multiplies a relative error with.
using CentringGain = std::function<double(const DiffSite& site)>;

/// Fills noise_floor, tolerance, within, inputs, class, input_error and amplification of every site.
/// `site_of` gives the row of `sites` for a row of `graph`, -1 for none; sites stand in the order of the graph, and
/// those with an `inner` one directly behind that: such a site reads the inner one only.
///
/// A source differs by more than rounding and by more than what it read explains. That is: for operations that cannot
/// enlarge a difference (add, relu, views, pooling …) twice the norm of the differences handed in; for others nothing,
/// where all it read is within its noise floor, else 32 times the relative error handed in (for norms, times the
/// centring gain of what they read). What is explained is inherited if a source is among its ancestors, and drift
/// otherwise. `judge` decides what fails, not what is a source: one that passes (a rule was loosened, --only left it
/// out) is kept as a source if something that fails inherits from it.
void find_causes(const Side& graph, const std::vector<std::int64_t>& site_of, bool coarser_roundoff, const Judge& judge,
                 std::vector<DiffSite>& sites, const CentringGain& centring = {});

/// The same where no side has dataflow: each site may read all before it, of which the one with the greatest error is
/// its input. There is one source at most; what is out of tolerance after it is inherited.
void find_causes_in_order(bool coarser_roundoff, const Judge& judge, std::vector<DiffSite>& sites);

}  // namespace tl

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/compare.h"
#include "tensor/dtype.h"
#include "trace/dump.h"

namespace tl {

/// One of the two recordings of a comparison, as its own file describes it. Empty text and nullopt: not stated.
struct DiffSide {
  std::string name;     ///< as given on the command line
  std::string kind;     ///< torchscript script, exported program, torchlens recorder …
  std::string details;  ///< ways it was run, joined by ` · `: torch 2.13 · eval · f32 · cpu
  std::string model_class;
  std::string mode;     ///< eval, train, mixed, baked
  std::string dtype;    ///< of most parameters, short name
  std::string outcome;  ///< complete, halted, …; what is not complete is a prefix
  std::optional<std::int64_t> seed;
  std::int64_t num_sites = 0;     ///< operations, or entries of a dump
  std::int64_t num_payloads = 0;  ///< of these, with values to compare
  bool has_dataflow = false;      ///< false for dumps
};

/// Why two sites are held to be the same, strongest first.
enum class MatchBasis : std::uint8_t {
  kSiteKey = 0,     ///< same module path, type, slot and ordinal
  kMap = 1,         ///< the same after the rules of --map
  kParameters = 2,  ///< read parameters of equal content
  kModule = 3,      ///< outputs of module calls that correspond
  kSequence = 4,    ///< between matched neighbours, in order, by type and shape
  kContent = 5,     ///< equal, unique values
  kRole = 6,        ///< inputs, outputs and buffers, by role, address or position
};
inline constexpr std::size_t kNumMatchBases = 7;
/// names, map, weights, modules, order, values, roles.
const char* to_string(MatchBasis basis);

/// What the values of a matched pair say, by dataflow.
enum class SiteClass : std::uint8_t {
  kAgrees = 0,        ///< within the tolerance, or equal
  kSource = 1,        ///< out of tolerance although what it read agrees, or by more than what it read explains
  kInherited = 2,     ///< out of tolerance as what it read is
  kUndetermined = 3,  ///< out of tolerance; what it read could not be compared
  kDrift = 4,         ///< out of tolerance by growth in small steps, without a source
  kNotCompared = 5,   ///< a side has no value
};
/// agrees, source, inherited, undetermined, drift, not compared.
const char* to_string(SiteClass site_class);

/// full, sampled, statistics, shape.
const char* to_string(Evidence evidence);

/// Where a site is in one recording.
struct SiteRef {
  std::int64_t row = -1;     ///< row of ops, or of the entries of a dump; -1: the side has no such site
  std::string label;         ///< layernorm_16_412; the name of an entry of a dump
  std::string module;        ///< blocks.7.norm2; empty at the root
  std::string module_class;  ///< LayerNorm
  std::string func_name;     ///< layer_norm; input, output, buffer; empty for entries of a dump
  std::string file;          ///< source file as the recording has it; empty if unknown
  std::int64_t line = 0;     ///< from 1; 0 if unknown
  DType dtype = DType::kNone;
  std::vector<std::int64_t> sizes;
};

/// An argument, element type or other static property that the two sides of a pair do not share.
struct ArgumentDifference {
  std::string name;  ///< eps, padding; `dtype`, `shape`, `operator`, `weights`, `module mode` for what is no argument
  std::string reference;  ///< the value as text
  std::string subject;
};

/// One row of the report: a site that both sides have.
struct DiffSite {
  SiteRef reference;
  SiteRef subject;
  MatchBasis basis = MatchBasis::kSiteKey;
  std::vector<ArgumentDifference> arguments;  ///< by position; differences that cannot change a value are left out

  Evidence evidence = Evidence::kShape;       ///< the weaker of the two sides
  std::optional<TensorComparison> metrics;    ///< full and sampled evidence
  std::optional<StatsComparison> statistics;  ///< statistics as evidence
  std::optional<TopKAgreement> top_k;         ///< outputs whose last axis looks like classes
  std::string worst_reference;                ///< the worst element as text, on both sides; empty without one
  std::string worst_subject;
  std::vector<std::int64_t> worst_at;  ///< its coordinates
  double error = 0;         ///< what is judged and plotted: rel L2; the share of unequal elements of ints and bools;
                            ///< infinite where NaN or infinities disagree or shapes differ
  double scale = 0;         ///< norm that `error` is relative to: the greater of the two, constants of masks left out
  double noise_floor = 0;   ///< error that rounding alone explains
  double tolerance = 0;     ///< error that the verdict lets pass; 0 where rules in a file decided
  bool within = true;       ///< of the tolerance; meaningless for kNotCompared
  bool judged = true;       ///< false: a rule says that it is to be ignored
  std::string failed_rule;  ///< the rule that was broken, where rules decided

  SiteClass site_class = SiteClass::kNotCompared;
  double input_error = 0;             ///< greatest error of the compared sites it reads
  double input_floor = 0;             ///< noise floor of that site
  double amplification = 0;           ///< error / input_error; 0 where nothing was handed in
  std::vector<std::int64_t> inputs;   ///< rows of DiffReport::sites that it reads, through unmatched ops
  std::int64_t unmatched_inputs = 0;  ///< of a site out of tolerance: ops between it and those that only one side has
  bool explains = false;              ///< a source that passes or was left out, but what it leads to fails
  std::int64_t more_passes = 0;       ///< of a source: further passes of the same Layer that are sources for the same
  /// Of a source against a dump: operations that may be the source too, as no value of the dump stands between them and
  /// the site; in order. Empty where the site itself is the source.
  std::vector<SiteRef> between;
  std::string interval;  ///< of such a source its name: between a.q, a.k, a.v and a.o
  /// Against a dump, where the values of several entries that one operation stands for differ: of all but the innermost
  /// entry the row of the site of the one inside of it, which is the row before. -1 for other sites.
  std::int64_t inner = -1;
  std::int64_t read_from = 0;  ///< of such a site: the first operation that reads its value, not that of the inner one
  std::string cause;           ///< of a source: what is known to differ there, in words; empty if nothing is

  bool selected = true;      ///< false: --only left it out; it cannot fail the verdict
  std::int64_t samples = 1;  ///< inputs this row was compared on
  double mean_error = 0;     ///< over the samples
  double worst_error = 0;
  std::int64_t worst_sample = 0;  ///< its number, from 0
};

/// Its values were compared.
inline bool is_compared(const DiffSite& site) { return site.site_class != SiteClass::kNotCompared; }
/// Its values take part in the verdict.
inline bool is_judged(const DiffSite& site) { return is_compared(site) && site.selected && site.judged; }

/// What one side has and the other has in another form or not at all.
enum class ChangeKind : std::uint8_t {
  kInserted = 0,   ///< only the subject has these ops
  kRemoved = 1,    ///< only the reference has them
  kFused = 2,      ///< several ops of the reference are one of the subject
  kSplit = 3,      ///< one op of the reference is several of the subject
  kRewritten = 4,  ///< several are several others
  kReordered = 5,  ///< the same op, in another place of the order
  kQuantise = 6,   ///< a pair of quantise and dequantise ops that only one side has
  kExchanged = 7,  ///< two sites that have each other's weights
};
/// inserted, removed, fused, split, rewritten, reordered, quantised, exchanged.
const char* to_string(ChangeKind kind);

struct DiffChange {
  ChangeKind kind = ChangeKind::kInserted;
  std::vector<SiteRef> reference;
  std::vector<SiteRef> subject;
  std::int64_t site = -1;  ///< row of sites whose value the change leads to; -1 if none is matched
};

enum class Agreement : std::uint8_t { kSame = 0, kDifferent = 1, kUnknown = 2 };

/// One thing that must be equal before numbers mean anything.
struct Precondition {
  std::string name;  ///< inputs, weights, buffers, mode, seed, branches
  Agreement agreement = Agreement::kUnknown;
  std::int64_t same = 0;   ///< of `total`
  std::int64_t total = 0;  ///< items looked at: those of both sides, and those of one side that count against it
  std::string reference;   ///< the two values, where there is one each
  std::string subject;
  std::vector<std::string> details;  ///< what differs, with both values, and hints; a line each
  std::int64_t more_details = 0;     ///< of the same sort, left out
};

/// How the values of a parameter differ, where both are at hand.
enum class WeightRelation : std::uint8_t {
  kOther = 0,         ///< in no way that has a name
  kReordered = 1,     ///< blocks along one axis stand in another order
  kTransposed = 2,    ///< two axes are exchanged, or more are in another order
  kReshaped = 3,      ///< the same elements in the same order, in another shape
  kSameElements = 4,  ///< the same elements in some other order
  kScaled = 5,        ///< all multiplied by one number
  kRounded = 6,       ///< each rounded to bf16
  kFilled = 7,        ///< one value throughout, on the subject's side
  kQuantised = 8,     ///< one side is quantised, the other is not, or otherwise
  kConverted = 9,     ///< of another element type
};
/// other, reordered, transposed, reshaped, same elements, scaled, rounded, filled, quantised, converted.
const char* to_string(WeightRelation relation);

struct WeightDifference {
  std::string reference;  ///< its address
  std::string subject;
  WeightRelation relation = WeightRelation::kOther;
  std::int64_t axis = -1;           ///< kReordered: along which
  std::int64_t block = 0;           ///< kReordered: elements of the axis that moved together
  std::vector<std::int64_t> order;  ///< kReordered: for each block of the subject the reference's; kTransposed: for
                                    ///< each axis of the subject the reference's
  std::string blocks;               ///< kReordered: what the blocks are, where that is known: heads, gates
  double factor = 0;                ///< kScaled: subject / reference; kFilled: the value
  double rel_l2 = 0;   ///< of the difference, element by element; infinite where shapes differ or NaN disagree
  double sqnr_db = 0;  ///< likewise; infinite without a difference
  std::string text;    ///< the relation in words
};

/// Growth of the error along a row of modules that are alike: blocks.0 … blocks.29.
struct GrowthSeries {
  std::string name;            ///< blocks
  std::int64_t first = 0;      ///< number of the first module
  std::vector<double> errors;  ///< of the module outputs in order; -1 where not compared
  std::int64_t jump = -1;      ///< number of the module where it grew most, by 10 times or more; -1 if nowhere
};

struct DiffCoverage {
  std::string unit = "sites";  ///< sites, or module outputs where the two are written in different operators
  std::int64_t total = 0;      ///< of both sides together, a pair counting once
  std::int64_t matched = 0;
  std::int64_t compared = 0;  ///< matched and compared by value
  std::int64_t inside_fused =
      0;  ///< operations left out of `total`: steps of what the other side does in one operation
  std::int64_t by_basis[kNumMatchBases] = {};
  std::int64_t by_evidence[4] = {};  ///< of matched, index Evidence
  double share() const { return total == 0 ? 0 : static_cast<double>(compared) / static_cast<double>(total); }
};

/// The whole result of a comparison: pure data, from which every report is written. Rows of `sites` stand in the order
/// of the subject (of the reference where the subject is a dump), inputs first, outputs last.
struct DiffReport {
  DiffSide reference;
  DiffSide subject;
  bool is_static = false;  ///< values were not looked at
  std::vector<Precondition> preconditions;
  /// Parameters that differ, by their values, where those are at hand; the first kMostWeights of them.
  std::vector<WeightDifference> weights;
  DiffCoverage coverage;
  std::vector<DiffSite> sites;
  std::vector<DiffChange> changes;
  std::vector<GrowthSeries> growth;
  std::vector<std::string> notes;  ///< what weakens the comparison: partial recordings, missing payloads

  std::string floor_rule;             ///< how noise floors were made, with the constants
  std::string tolerance_rule;         ///< how the verdict was reached
  std::vector<std::int64_t> sources;  ///< rows of sites, in order; the first is the answer
  std::int64_t num_inherited = 0;
  std::int64_t num_undetermined = 0;
  std::int64_t num_drift = 0;
  std::int64_t num_out_of_tolerance = 0;
  std::int64_t first_out_of_tolerance = -1;  ///< row of sites
  double needed_tolerance = 0;               ///< the least rel L2 that would let every site pass
  std::vector<std::string> samples;          ///< names of the inputs, where there were several

  bool different = false;  ///< the verdict
  std::string verdict;     ///< one line: DIFFERENT  1 source: blocks.7.norm2 (eps)
  std::string again;       ///< the command to repeat
};

}  // namespace tl

#pragma once

#include <limits>
#include <string>

#include "diff/report.h"

namespace tl::test {

inline SiteRef site_ref(std::int64_t row, std::string label, std::string module, std::string func_name) {
  SiteRef ref;
  ref.row = row;
  ref.label = std::move(label);
  ref.module = std::move(module);
  ref.func_name = std::move(func_name);
  ref.dtype = DType::kBF16;
  ref.sizes = {1, 4, 8};
  return ref;
}

inline TensorComparison metrics_of(double rel_l2, double max_abs) {
  TensorComparison metrics;
  metrics.numel = metrics.compared = 32;
  metrics.differing = metrics.mismatched = max_abs > 0 ? 7 : 0;
  metrics.rel_l2 = rel_l2;
  metrics.max_abs = metrics.needed_atol = max_abs;
  metrics.mean_abs = max_abs / 4;
  metrics.sqnr_db = rel_l2 > 0 ? 30.25 : std::numeric_limits<double>::infinity();
  metrics.cosine = 1 - rel_l2 / 100;
  metrics.max_ulp = max_abs > 0 ? 56 : 0;
  metrics.needed_rtol = max_abs > 0 ? std::numeric_limits<double>::infinity() : 0;
  return metrics;
}

/// A comparison with a source (wrong eps) in a loop of blocks, a carrier of it, an op without values, and names that
/// mean something to every format.
inline DiffReport sample_report() {
  DiffReport report;
  report.reference = {.name = "eager.tlspec",
                      .kind = "torchlens recorder",
                      .details = "torch 2.13 · bf16 · cuda",
                      .model_class = "WanModel",
                      .mode = "eval",
                      .dtype = "bf16",
                      .outcome = "complete",
                      .seed = 7,
                      .num_sites = 5,
                      .num_payloads = 4};
  report.subject = report.reference;
  report.subject.name = "dit.tlspec";
  report.subject.kind = "exported program";
  report.subject.outcome = "halted";
  report.subject.seed.reset();
  report.subject.has_dataflow = true;
  report.preconditions.resize(4);
  report.preconditions[0].name = "inputs";
  report.preconditions[0].agreement = Agreement::kSame;
  report.preconditions[0].same = report.preconditions[0].total = 3;
  report.preconditions[1].name = "weights";
  report.preconditions[1].agreement = Agreement::kDifferent;
  report.preconditions[1].same = 824;
  report.preconditions[1].total = 825;
  report.preconditions[1].details = {"head.bias: rel L2 0.5"};
  report.preconditions[2].name = "mode";
  report.preconditions[2].agreement = Agreement::kSame;
  report.preconditions[2].reference = report.preconditions[2].subject = "eval";
  report.preconditions[3].name = "branches";
  report.coverage.total = 5;
  report.coverage.matched = 5;
  report.coverage.compared = 4;
  report.coverage.by_basis[0] = 4;
  report.coverage.by_basis[6] = 1;
  report.coverage.by_evidence[0] = 1;
  report.coverage.by_evidence[3] = 4;

  DiffSite input;
  input.reference = input.subject = site_ref(0, "input_1", "", "input");
  input.basis = MatchBasis::kRole;
  input.evidence = Evidence::kFull;
  input.metrics = metrics_of(0, 0);
  input.metrics->bitwise_equal = true;
  input.site_class = SiteClass::kAgrees;
  input.noise_floor = 0.001;
  input.tolerance = 0.01;

  DiffSite source;
  source.reference = site_ref(3, "norm2", "blocks.7.norm2", "");
  source.subject = site_ref(9, "layernorm_16_412", "blocks.7.norm2", "layer_norm");
  source.subject.module_class = "LayerNorm";
  source.subject.file = "/ci/repo/wan/model, v2:a.py";
  source.subject.line = 231;
  source.arguments = {{.name = "eps", .reference = "1e-06", .subject = "1e-05"}};
  source.evidence = Evidence::kFull;
  source.metrics = metrics_of(0.031, 0.4375);
  source.worst_reference = "-1.875";
  source.worst_subject = "-1.4375";
  source.worst_at = {0, 3, 2};
  source.error = 0.031;
  source.noise_floor = 0.0042;
  source.tolerance = 0.01;
  source.within = false;
  source.site_class = SiteClass::kSource;
  source.input_error = 0.0039;
  source.input_floor = 0.0042;
  source.amplification = 8;
  source.inputs = {0};
  source.cause = "eps = 1e-06 in reference, 1e-05 in subject";

  DiffSite carrier = source;
  carrier.reference.label = carrier.subject.label = "=cmd|'/c calc'!A0";
  carrier.reference.module = carrier.subject.module = "<script>alert(1)</script>\n::error::x & *bold* | y";
  carrier.subject.file = "";
  carrier.arguments.clear();
  carrier.cause.clear();
  carrier.site_class = SiteClass::kInherited;
  carrier.failed_rule = "tol.txt:3: max_abs is 0.438, not < 0.1";
  carrier.metrics->nonfinite_disagreements = carrier.metrics->nan_only_subject = 2;
  carrier.error = std::numeric_limits<double>::infinity();
  carrier.inputs = {1};

  DiffSite shape;
  shape.reference = site_ref(11, "view_1_500", "", "view");
  shape.subject = site_ref(12, "view_1_500", "", "view");
  shape.subject.dtype = DType::kF32;

  DiffSite by_statistics;
  by_statistics.reference = by_statistics.subject = site_ref(13, "output_1", "", "output");
  by_statistics.evidence = Evidence::kStatistics;
  by_statistics.statistics = StatsComparison{.any = true, .rel_l2_at_least = 0.002};
  by_statistics.error = 0.002;
  by_statistics.noise_floor = 0.005;
  by_statistics.tolerance = 0.05;
  by_statistics.site_class = SiteClass::kAgrees;

  report.sites = {input, source, carrier, shape, by_statistics};
  report.changes = {{.kind = ChangeKind::kFused,
                     .reference = {site_ref(4, "matmul_1_4", "", "matmul"), site_ref(5, "add_1_5", "", "add")},
                     .subject = {site_ref(6, "linear_1_4", "", "linear")},
                     .site = 2}};
  report.growth = {{.name = "blocks", .first = 5, .errors = {0.001, -1, 0.031, 0.26}, .jump = 7}};
  report.notes = {"the subject is a prefix: halted at layernorm_16_412"};
  report.floor_rule = "c * u * sqrt(depth)";
  report.tolerance_rule = "rel L2 <= 10 floors";
  report.sources = {1};
  report.num_inherited = 1;
  report.num_out_of_tolerance = 2;
  report.first_out_of_tolerance = 1;
  report.needed_tolerance = 0.031;
  report.different = true;
  report.verdict = "DIFFERENT  1 source: blocks.7.norm2 (eps)";
  report.again = "torchlens diff eager.tlspec dit.tlspec";
  return report;
}

}  // namespace tl::test

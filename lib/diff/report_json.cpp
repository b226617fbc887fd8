#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/json_text.h"
#include "diff/report_parts.h"
#include "diff/reports.h"
#include "tensor/metric.h"

namespace tl {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no NaN and no infinities.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return report::exact_number(value);
}

template <typename T>
Json optional_value(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

const char* to_word(Agreement agreement) {
  switch (agreement) {
    case Agreement::kSame:
      return "same";
    case Agreement::kDifferent:
      return "different";
    case Agreement::kUnknown:
      return "unknown";
  }
  return "unknown";
}

Json side_json(const DiffSide& side) {
  return {{"name", side.name},
          {"kind", side.kind},
          {"details", side.details},
          {"model_class", side.model_class},
          {"mode", side.mode},
          {"dtype", side.dtype},
          {"outcome", side.outcome},
          {"seed", optional_value(side.seed)},
          {"sites", side.num_sites},
          {"payloads", side.num_payloads},
          {"has_dataflow", side.has_dataflow}};
}

Json ref_json(const SiteRef& ref) {
  return {{"row", ref.row},
          {"label", ref.label},
          {"module", ref.module},
          {"module_class", ref.module_class},
          {"func_name", ref.func_name},
          {"file", ref.file},
          {"line", ref.line},
          {"dtype", ref.dtype == DType::kNone ? Json() : Json(short_name(ref.dtype))},
          {"shape", ref.sizes}};
}

Json metrics_json(const TensorComparison& metrics) {
  Json json = {{"numel", metrics.numel},
               {"compared", metrics.compared},
               {"bitwise_equal", metrics.bitwise_equal},
               {"differing", metrics.differing},
               {"mismatched", metrics.mismatched}};
  for (const MetricInfo& info : metric_table()) {
    const auto value = metric_value(metrics, info.metric);
    json[std::string(info.name)] = value ? number(*value) : Json();
  }
  if (metrics.max_ulp) json["max_ulp"] = *metrics.max_ulp;
  json["reference_l2"] = number(metrics.reference_l2);
  json["subject_l2"] = number(metrics.subject_l2);
  json["reference_max"] = number(metrics.reference_max);
  json["needed_atol"] = number(metrics.needed_atol);
  json["needed_rtol"] = number(metrics.needed_rtol);
  return json;
}

Json statistics_json(const StatsComparison& statistics) {
  return {{"same_counts", statistics.same_counts},
          {"max_abs_at_least", number(statistics.max_abs_at_least)},
          {"mean_abs_at_least", number(statistics.mean_abs_at_least)},
          {"rel_l2_at_least", number(statistics.rel_l2_at_least)},
          {"drift", number(statistics.drift)}};
}

Json top_k_json(const TopKAgreement& top_k) {
  return {{"k", top_k.k},
          {"rows", top_k.rows},
          {"top1_agree", top_k.top1_agree},
          {"order_agree", top_k.order_agree},
          {"mean_overlap", number(top_k.mean_overlap)}};
}

Json arguments_json(const std::vector<ArgumentDifference>& arguments) {
  Json json = Json::array();
  for (const auto& each : arguments) {
    json.push_back({{"name", each.name}, {"reference", each.reference}, {"subject", each.subject}});
  }
  return json;
}

Json site_json(const DiffSite& site, std::size_t row) {
  Json json = {{"row", row},
               {"name", report::name_of(site)},
               {"class", to_string(site.site_class)},
               {"within", site.within},
               {"selected", site.selected},
               {"evidence", to_string(site.evidence)},
               {"basis", to_string(site.basis)},
               {"error", number(site.error)},
               {"noise_floor", number(site.noise_floor)},
               {"tolerance", number(site.tolerance)},
               {"failed_rule", site.failed_rule},
               {"cause", site.cause},
               {"arguments", arguments_json(site.arguments)},
               {"input_error", number(site.input_error)},
               {"input_floor", number(site.input_floor)},
               {"amplification", number(site.amplification)},
               {"inputs", site.inputs},
               {"unmatched_inputs", site.unmatched_inputs},
               {"reference", ref_json(site.reference)},
               {"subject", ref_json(site.subject)},
               {"metrics", site.metrics ? metrics_json(*site.metrics) : Json()},
               {"statistics", site.statistics ? statistics_json(*site.statistics) : Json()},
               {"top_k", site.top_k ? top_k_json(*site.top_k) : Json()},
               {"worst", Json()},
               {"samples", Json()}};
  if (!site.worst_reference.empty() || !site.worst_subject.empty()) {
    json["worst"] = {{"at", site.worst_at}, {"reference", site.worst_reference}, {"subject", site.worst_subject}};
  }
  if (!site.between.empty()) {
    json["between"] = Json::array();
    for (const auto& ref : site.between) json["between"].push_back(ref_json(ref));
  }
  if (site.samples > 1) {
    json["samples"] = {{"count", site.samples},
                       {"mean_error", number(site.mean_error)},
                       {"worst_error", number(site.worst_error)},
                       {"worst_sample", site.worst_sample}};
  }
  return json;
}

Json change_json(const DiffChange& change) {
  Json json = {{"kind", to_string(change.kind)}, {"site", change.site}};
  for (const auto& [name, refs] : {std::pair("reference", &change.reference), std::pair("subject", &change.subject)}) {
    json[name] = Json::array();
    for (const SiteRef& ref : *refs) json[name].push_back(ref_json(ref));
  }
  return json;
}

Json precondition_json(const Precondition& precondition) {
  return {{"name", precondition.name},
          {"agreement", to_word(precondition.agreement)},
          {"same", precondition.same},
          {"total", precondition.total},
          {"reference", precondition.reference},
          {"subject", precondition.subject},
          {"details", report::detail_lines(precondition)}};
}

Json growth_json(const GrowthSeries& series) {
  Json errors = Json::array();
  for (const double error : series.errors) errors.push_back(error < 0 ? Json() : number(error));
  return {{"name", series.name}, {"first", series.first}, {"errors", std::move(errors)}, {"jump", series.jump}};
}

Json weight_json(const WeightDifference& weight) {
  Json json = {{"reference", weight.reference},
               {"subject", weight.subject},
               {"relation", to_string(weight.relation)},
               {"text", weight.text},
               {"rel_l2", number(weight.rel_l2)},
               {"sqnr_db", number(weight.sqnr_db)},
               {"axis", Json()},
               {"block", Json()},
               {"order", Json()},
               {"blocks", Json()},
               {"factor", Json()}};
  if (!weight.order.empty()) json["order"] = weight.order;
  if (weight.relation == WeightRelation::kReordered) {
    json["axis"] = weight.axis;
    json["block"] = weight.block;
    if (!weight.blocks.empty()) json["blocks"] = weight.blocks;
  }
  if (weight.relation == WeightRelation::kScaled || weight.relation == WeightRelation::kFilled) {
    json["factor"] = number(weight.factor);
  }
  return json;
}

Json coverage_json(const DiffCoverage& coverage) {
  Json json = {
      {"unit", coverage.unit},         {"total", coverage.total},           {"matched", coverage.matched},
      {"compared", coverage.compared}, {"share", number(coverage.share())}, {"inside_fused", coverage.inside_fused},
      {"by_basis", Json::object()},    {"by_evidence", Json::object()}};
  for (std::size_t i = 0; i < kNumMatchBases; ++i) {
    json["by_basis"][to_string(static_cast<MatchBasis>(i))] = coverage.by_basis[i];
  }
  for (std::size_t i = 0; i < 4; ++i) {
    json["by_evidence"][to_string(static_cast<Evidence>(i))] = coverage.by_evidence[i];
  }
  return json;
}

Json verdict_json(const DiffReport& report) {
  return {{"different", report.different},
          {"verdict", report.verdict},
          {"again", report.again},
          {"sources", report.sources},
          {"inherited", report.num_inherited},
          {"undetermined", report.num_undetermined},
          {"drift", report.num_drift},
          {"out_of_tolerance", report.num_out_of_tolerance},
          {"first_out_of_tolerance", report.first_out_of_tolerance},
          {"needed_tolerance", number(report.needed_tolerance)},
          {"floor_rule", report.floor_rule},
          {"tolerance_rule", report.tolerance_rule}};
}

template <typename T, typename Convert>
Json array_of(const std::vector<T>& items, Convert convert) {
  Json json = Json::array();
  for (const T& item : items) json.push_back(convert(item));
  return json;
}

/// One line; what json_text would write on several.
std::string line_of(Json record) {
  const std::string indented = json_text(std::move(record), JsonStyle::kLog);
  return Json::parse(indented).dump(-1, ' ', true) + "\n";
}

Json typed(const char* type, const Json& record) {
  Json json = {{"type", type}};
  for (const auto& [key, value] : record.items()) json[key] = value;
  return json;
}

}  // namespace

std::string json_report(const DiffReport& report) {
  Json document = {{"schema", "torchlens.diff/1"}, {"ok", !report.different}};
  const Json verdict = verdict_json(report);
  for (const auto& [key, value] : verdict.items()) document[key] = value;
  document["static"] = report.is_static;
  document["reference"] = side_json(report.reference);
  document["subject"] = side_json(report.subject);
  document["preconditions"] = array_of(report.preconditions, precondition_json);
  document["weights"] = array_of(report.weights, weight_json);
  document["coverage"] = coverage_json(report.coverage);
  document["notes"] = report.notes;
  document["samples"] = report.samples;
  document["changes"] = array_of(report.changes, change_json);
  document["growth"] = array_of(report.growth, growth_json);
  document["sites"] = Json::array();
  for (std::size_t row = 0; row < report.sites.size(); ++row) {
    document["sites"].push_back(site_json(report.sites[row], row));
  }
  return json_text(std::move(document), JsonStyle::kLog);
}

std::string jsonl_report(const DiffReport& report) {
  std::string text = line_of({{"type", "config"},
                              {"schema", "torchlens.diff/1"},
                              {"static", report.is_static},
                              {"reference", side_json(report.reference)},
                              {"subject", side_json(report.subject)},
                              {"samples", report.samples}});
  for (const auto& each : report.preconditions) text += line_of(typed("precondition", precondition_json(each)));
  for (const auto& each : report.weights) text += line_of(typed("weight", weight_json(each)));
  text += line_of(typed("coverage", coverage_json(report.coverage)));
  for (const auto& note : report.notes) text += line_of({{"type", "note"}, {"text", note}});
  for (const auto& change : report.changes) text += line_of(typed("change", change_json(change)));
  for (std::size_t row = 0; row < report.sites.size(); ++row) {
    text += line_of(typed("site", site_json(report.sites[row], row)));
  }
  for (const auto& series : report.growth) text += line_of(typed("growth", growth_json(series)));
  return text + line_of(typed("verdict", verdict_json(report)));
}

}  // namespace tl

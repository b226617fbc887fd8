#include "diff/interval.h"

#include <algorithm>

namespace tl {
namespace {

std::size_t row_of(std::int64_t value) { return static_cast<std::size_t>(value); }

/// Walks from a site back to the compared sites it reads.
class Between {
 public:
  Between(const Side& graph, const std::vector<std::int64_t>& site_of, const std::vector<DiffSite>& sites)
      : graph_(graph), site_of_(site_of), sites_(sites), seen_(graph.size(), 0) {}

  bool has_budget() const { return budget_ > 0; }

  /// Rows behind `op` without a compared value, each once, the nearest first.
  const std::vector<std::size_t>& rows(std::size_t op) {
    ++round_;
    rows_.clear();
    visit(op);
    for (std::size_t next = 0; next < rows_.size(); ++next) visit(rows_[next]);
    return rows_;
  }

 private:
  void visit(std::size_t op) {
    const auto [begin, end] = edge_range(*graph_.trace, OpId{static_cast<std::uint32_t>(op)});
    budget_ -= static_cast<std::int64_t>(end - begin);
    for (auto edge = begin; edge < end; ++edge) {
      const auto parent = row_of(graph_.trace->edges.parent[edge]);
      const auto site = site_of_[parent];
      if (seen_[parent] == round_ || (site >= 0 && sites_[row_of(site)].evidence != Evidence::kShape)) continue;
      seen_[parent] = round_;
      rows_.push_back(parent);
    }
  }

  const Side& graph_;
  const std::vector<std::int64_t>& site_of_;
  const std::vector<DiffSite>& sites_;
  std::vector<std::uint32_t> seen_;  ///< the round in which a row was visited last
  std::uint32_t round_ = 0;
  std::vector<std::size_t> rows_;
  std::int64_t budget_ = 10'000'000;
};

/// The call is `outer` or was made inside of it.
bool is_within(const Trace& trace, std::int32_t call, std::int32_t outer) {
  while (call >= 0 && call != outer) call = trace.module_calls.parent_call[row_of(call)];
  return call >= 0;
}

/// The name of a site by itself, whatever stands before it.
std::string own_name(const DiffSite& site) {
  const auto& ref = site.subject.module.empty() ? site.reference : site.subject;
  return ref.module.empty() ? ref.label : ref.module;
}

/// `between a and b`, with the ends that are known.
std::string interval_text(const DiffSite& site, const std::vector<DiffSite>& sites) {
  constexpr std::size_t kMostEnds = 4;
  const auto count = std::min(site.inputs.size(), kMostEnds);
  if (count == 0) return "before " + own_name(site);
  std::string text = "between ";
  for (std::size_t i = 0; i < count; ++i) text += (i ? ", " : "") + own_name(sites[row_of(site.inputs[i])]);
  if (site.inputs.size() > count) text += " or " + std::to_string(site.inputs.size() - count) + " others";
  return text + " and " + own_name(site);
}

}  // namespace

void count_unmatched_inputs(const Side& graph, const std::vector<std::int64_t>& site_of, std::vector<DiffSite>& sites) {
  Between between(graph, site_of, sites);
  for (std::size_t op = 0; op < graph.size() && between.has_budget(); ++op) {
    if (site_of[op] < 0) continue;
    auto& site = sites[row_of(site_of[op])];
    if (site.site_class == SiteClass::kAgrees || site.site_class == SiteClass::kNotCompared) continue;
    for (const auto row : between.rows(op)) {
      site.unmatched_inputs += site_of[row] < 0 && graph.kind[row] == OpKind::kOperation;
    }
  }
}

void find_intervals(const Side& graph, const std::vector<std::int64_t>& site_of,
                    const std::vector<std::int32_t>& call_of, std::vector<DiffSite>& sites) {
  const auto& trace = *graph.trace;
  Between between(graph, site_of, sites);
  for (std::size_t op = 0; op < graph.size() && between.has_budget(); ++op) {
    if (site_of[op] < 0 || sites[row_of(site_of[op])].site_class != SiteClass::kSource) continue;
    auto& site = sites[row_of(site_of[op])];
    const auto call = call_of.empty() ? -1 : call_of[op];
    auto rows = between.rows(op);
    std::erase_if(rows, [&](std::size_t row) {
      return is_neutral(trace, row) || (call >= 0 && is_within(trace, trace.ops.module_call[row], call));
    });
    if (rows.empty()) continue;
    std::ranges::sort(rows);
    for (const auto row : rows) site.between.push_back(site_ref(graph, row));
    site.interval = interval_text(site, sites);
  }
}

std::string interval_cause(const DiffSite& site) {
  if (site.between.empty()) return {};
  constexpr std::size_t kMost = 6;
  const auto count = site.between.size();
  std::string text = count == 1 ? "computed in between: " : "one of " + std::to_string(count) + " ops in between: ";
  for (std::size_t i = 0; i < std::min(count, kMost); ++i) text += (i ? ", " : "") + site.between[i].label;
  return count > kMost ? text + " and " + std::to_string(count - kMost) + " more" : text;
}

}  // namespace tl

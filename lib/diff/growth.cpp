#include "diff/growth.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace tl {
namespace {

constexpr double kJump = 10;

/// `blocks.7` → (blocks, 7); nothing for addresses that hold a number before their last part, or end in none.
bool split_numbered(std::string_view address, std::string& name, std::int64_t& number) {
  const auto dot = address.rfind('.');
  if (dot == std::string_view::npos) return false;
  const auto last = address.substr(dot + 1);
  const auto [end, error] = std::from_chars(last.data(), last.data() + last.size(), number);
  if (error != std::errc() || end != last.data() + last.size() || number < 0) return false;
  name = address.substr(0, dot);
  for (std::size_t i = 0; i + 1 < name.size(); ++i) {
    const bool part_begins = i == 0 || name[i - 1] == '.';
    if (part_begins && name[i] >= '0' && name[i] <= '9') return false;
  }
  return name.empty() || name.back() < '0' || name.back() > '9';
}

void mark_jump(GrowthSeries& series) {
  double before = -1;
  double greatest = kJump;
  for (std::size_t i = 0; i < series.errors.size(); ++i) {
    const auto error = series.errors[i];
    if (error < 0) continue;
    const double factor = before < 0 ? 0 : before == 0 ? (error > 0 ? 1e300 : 0) : error / before;
    if (factor >= greatest) {
      greatest = factor;
      series.jump = series.first + static_cast<std::int64_t>(i);
    }
    before = error;
  }
}

}  // namespace

std::vector<GrowthSeries> growth_of(const Side& graph, const std::vector<std::int64_t>& site_of,
                                    const std::vector<DiffSite>& sites) {
  std::map<std::string, std::map<std::int64_t, double>> found;
  std::vector<std::string> order;
  if (!graph.trace) return {};
  const auto& calls = graph.trace->module_calls;
  for (std::size_t call = 1; call < calls.module.size(); ++call) {
    std::string name;
    std::int64_t number = 0;
    const auto address =
        graph.trace->strings[graph.trace->modules.address[static_cast<std::size_t>(calls.module[call])]];
    if (!split_numbered(address, name, number)) continue;
    if (!found.contains(name)) order.push_back(name);
    double error = -1;
    if (const auto op = calls.output_op[call]; op >= 0) {
      const auto site = site_of[static_cast<std::size_t>(op)];
      if (site >= 0 && sites[static_cast<std::size_t>(site)].site_class != SiteClass::kNotCompared) {
        error = sites[static_cast<std::size_t>(site)].error;
      }
    }
    auto& slot = found[name].emplace(number, -1).first->second;
    slot = std::max(slot, error);
  }
  std::vector<GrowthSeries> result;
  for (const auto& name : order) {
    const auto& errors = found[name];
    if (errors.size() < 3) continue;
    GrowthSeries series;
    series.name = name;
    series.first = errors.begin()->first;
    const auto last = errors.rbegin()->first;
    if (last - series.first > static_cast<std::int64_t>(4 * errors.size())) continue;  // numbers that count nothing
    series.errors.assign(static_cast<std::size_t>(last - series.first + 1), -1);
    for (const auto& [number, error] : errors) series.errors[static_cast<std::size_t>(number - series.first)] = error;
    mark_jump(series);
    result.push_back(std::move(series));
  }
  return result;
}

}  // namespace tl

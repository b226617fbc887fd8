#include "dry_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/text.h"
#include "json_output.h"
#include "select/selection.h"
#include "table.h"
#include "text_format.h"

namespace tl::cli {
namespace {

struct Choice {
  std::string save;
  std::int64_t values = 0;  ///< distinct
  std::int64_t bytes = 0;
  std::string remark = {};
};

/// Distinct values of the Ops for which `wanted` is true.
template <typename Wanted>
Choice count(const Trace& trace, std::string save, Wanted&& wanted) {
  Choice choice{.save = std::move(save)};
  std::vector<bool> seen(trace.payloads.first_op.size(), false);
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    const auto payload = trace.ops.payload[op];
    if (payload < 0 || seen[static_cast<std::size_t>(payload)] || !wanted(op)) continue;
    seen[static_cast<std::size_t>(payload)] = true;
    ++choice.values;
    choice.bytes += trace.payloads.bytes[static_cast<std::size_t>(payload)];
  }
  return choice;
}

Choice count_samples(const Trace& trace, std::int64_t samples) {
  Choice choice{.save = "sample=" + std::to_string(samples)};
  for (std::size_t row = 0; row < trace.payloads.first_op.size(); ++row) {
    const auto item = static_cast<std::int64_t>(item_bytes(static_cast<DType>(trace.payloads.dtype[row])));
    choice.bytes += std::min(trace.payloads.bytes[row], samples * item);
    ++choice.values;
  }
  return choice;
}

std::vector<Choice> choices_of(const Trace& trace, const SavePlan& save, std::size_t budget_bytes) {
  const auto all = count(trace, "all", [](std::size_t) { return true; });
  const auto samples = count_samples(trace, save.samples);
  auto outputs = count(trace, "", [&](std::size_t op) {
    return (trace.ops.flags[op] & kOpModuleOutput) != 0 ||
           trace.ops.kind[op] == static_cast<std::uint8_t>(OpKind::kInput);
  });
  auto automatic = all;
  automatic.save = "auto";
  const auto budget = static_cast<std::int64_t>(budget_bytes);
  automatic.remark = "within the budget of " + format_bytes(budget_bytes);
  if (all.bytes > budget) {
    automatic.values = samples.values;
    automatic.bytes = samples.bytes + std::min(outputs.bytes, budget);
    automatic.remark = "over the budget of " + format_bytes(budget_bytes) + ": samples, and of " +
                       counted(outputs.values, "input and output") + " of modules what fits";
  }
  std::vector<Choice> choices = {automatic, all, samples};
  if (save.kind == SaveKind::kSelector) {
    std::vector<bool> selected(trace.num_ops(), false);
    for (const auto& site : resolve(Selector::parse(save.text), trace).sites) selected[site.op.index()] = true;
    choices.push_back(count(trace, save.text, [&](std::size_t op) { return selected[op]; }));
  }
  choices.push_back({.save = "none", .remark = "records only"});
  return choices;
}

}  // namespace

void print_dry_run(Context& context, const Trace& trace, const SavePlan& save, std::size_t budget_bytes) {
  const auto choices = choices_of(trace, save, budget_bytes);
  std::int64_t num_ops = 0;
  for (const auto kind : trace.ops.kind) num_ops += kind == static_cast<std::uint8_t>(OpKind::kOperation) ? 1 : 0;
  if (context.format == Format::kJson) {
    nlohmann::ordered_json body;
    body["dry_run"] = true;
    body["outcome"] = trace.run.outcome.status;
    body["num_ops"] = num_ops;
    body["missing_operators"] = nlohmann::ordered_json::array();
    body["budget_bytes"] = budget_bytes;
    for (const auto& choice : choices) {
      body["choices"].push_back({{"save", choice.save}, {"values", choice.values}, {"bytes", choice.bytes}});
    }
    context.out.raw(json_envelope("trace", true, body));
    return;
  }
  context.out.line(trace.run.model_file + ": " + counted(num_ops, "op") + " ran, " +
                   (trace.run.outcome.complete() ? "to the end" : trace.run.outcome.status) +
                   "; no operator is missing; nothing was written");
  Table table({{"--save", 0, false}, {"values", 0, true}, {"bytes", 0, true}, {"", 0, false}});
  for (const auto& choice : choices) {
    table.add({choice.save, std::to_string(choice.values), format_bytes(static_cast<std::uint64_t>(choice.bytes)),
               choice.remark});
  }
  table.print(context.out, "  ");
}

}  // namespace tl::cli

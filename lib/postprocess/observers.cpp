#include "postprocess/observers.h"

#include <fstream>
#include <span>

#include "core/digest.h"
#include "core/error.h"
#include "postprocess/pipeline.h"
#include "trace/invariants.h"
#include "trace/text.h"

namespace tl {

void StepTimer::before(const Step&, const Trace&) { start_ = std::chrono::steady_clock::now(); }

void StepTimer::after(const Step& step, const Trace&) {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  rows_.push_back({step.name, elapsed.count()});
}

double StepTimer::total_seconds() const {
  double total = 0;
  for (const auto& row : rows_) total += row.seconds;
  return total;
}

StepPrinter::StepPrinter(std::string which, bool changed, Sink sink)
    : which_(std::move(which)), changed_(changed), sink_(std::move(sink)) {
  if (which_ != "all") find_step(which_);
}

void StepPrinter::after(const Step& step, const Trace& trace) {
  const bool wanted = which_ == "all" || which_ == step.name;
  if (!wanted && !changed_) return;
  auto text = to_text(trace);
  const bool same = text == last_text_;
  if (wanted) {
    sink_("# after " + std::string(step.name) + (changed_ && same ? ": unchanged\n" : "\n"));
    if (!changed_ || !same) sink_(text);
  }
  last_text_ = std::move(text);
}

StepDumper::StepDumper(std::filesystem::path directory) : directory_(std::move(directory)) {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error) {
    throw Error(ErrorCode::kOutputFailed, directory_.string() + ": the directory cannot be made: " + error.message());
  }
}

void StepDumper::after(const Step& step, const Trace& trace) {
  const auto number = std::to_string(++number_);
  const auto path =
      directory_ / (std::string(number.size() < 2 ? "0" : "") + number + "-" + std::string(step.name) + ".trace");
  std::ofstream file(path, std::ios::binary);
  file << to_text(trace);
  file.close();
  if (!file) throw Error(ErrorCode::kOutputFailed, path.string() + ": cannot be written");
}

void StepVerifier::after(const Step& step, const Trace& trace) {
  const auto findings = check_invariants(trace);
  if (findings.empty()) return;
  throw Error(ErrorCode::kInvariant, "after step " + std::string(step.name) + ": " + findings[0].check + ": " +
                                         findings[0].message + " (" + std::to_string(findings.size()) + " findings)");
}

std::vector<StepContract::Digest> StepContract::digests(const Trace& trace) {
  std::vector<Digest> result;
  const auto add = [&](std::string_view table, std::string_view field, std::span<const std::byte> bytes) {
    result.push_back({std::string(table) + "." + std::string(field), column_group(table, field), digest_hex(bytes)});
  };
  for_each_table(trace, [&](std::string_view table, const auto& rows, auto&& visit) {
    visit(rows, [&](std::string_view field, const auto& column, std::string_view, std::string_view) {
      add(table, field, std::as_bytes(column.view()));
    });
  });
  add("args", "", std::as_bytes(trace.args.view()));
  add("flow_args", "", std::as_bytes(trace.flow_args.view()));
  add("op_seconds", "", std::as_bytes(trace.op_seconds.view()));
  add("module_call_seconds", "", std::as_bytes(trace.module_call_seconds.view()));
  add("statistics", "op", std::as_bytes(trace.statistics.op.view()));
  visit_statistics(trace.statistics, [&](std::string_view name, const auto& column, StatisticSet) {
    add("statistics", name, std::as_bytes(column.view()));
  });
  add("graph_shape_hash", "", std::as_bytes(std::span(trace.graph_shape_hash)));
  const std::uint8_t finished = trace.finished ? 1 : 0;
  add("finished", "", std::as_bytes(std::span(&finished, 1)));
  Trace facts;
  facts.run = trace.run;
  const auto run = to_text(facts, {.stable = false});
  add("run", "", std::as_bytes(std::span(run)));
  return result;
}

void StepContract::before(const Step&, const Trace& trace) { before_ = digests(trace); }

void StepContract::after(const Step& step, const Trace& trace) {
  const auto now = digests(trace);
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i].digest == before_[i].digest || (now[i].group & step.writes) != 0) continue;
    throw Error(ErrorCode::kInternal,
                "the step " + std::string(step.name) + " changed " + now[i].column + ", which it does not declare");
  }
}

}  // namespace tl

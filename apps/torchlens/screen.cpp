#include "screen.h"

#include <algorithm>

#include "core/text.h"
#include "summary_table.h"
#include "text_format.h"

namespace tl::cli {
namespace {

constexpr std::size_t kMaxLeaves = 8;
constexpr std::size_t kMaxNames = 3;

std::string joined(const std::vector<std::string>& items, std::string_view separator) {
  std::string text;
  for (const auto& item : items) {
    if (!item.empty()) text += (text.empty() ? "" : std::string(separator)) + item;
  }
  return text;
}

/// The first few of a list of names, and how many more there are.
std::string few(const std::vector<std::string>& names) {
  std::vector<std::string> shown(names.begin(),
                                 names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMaxNames)));
  auto text = joined(shown, ", ");
  if (names.size() > kMaxNames) text += " and " + std::to_string(names.size() - kMaxNames) + " more";
  return text;
}

void print_header(Output& out, const RunInfo& run) {
  const auto where = run.device + ", " + counted(run.threads, "thread");
  const auto facts =
      joined({run.model_kind, run.model_class, run.engine, run.method == "forward" ? "" : "method " + run.method,
              run.mode, run.dtype, run.grad ? "gradients on" : "", where},
             " · ");
  out.line(Style::kBold, run.model_file, "   " + facts);
}

std::string value_of(const IoRecord& record) {
  return record.dtype == DType::kNone ? record.scalar : format_type(record.dtype, record.sizes);
}

std::string range_of(const IoRecord& record) {
  if (!record.min || !record.max) return {};
  return "range " + format_number(*record.min, 3) + " .. " + format_number(*record.max, 3);
}

void print_inputs(Output& out, const RunInfo& run, bool with_sources) {
  constexpr std::string_view kPrefix = "input.";
  std::size_t names = 0;
  std::size_t values = 0;
  std::size_t sources = 0;
  const auto name_of = [&](const IoRecord& record) {
    return record.role.starts_with(kPrefix) ? record.role.substr(kPrefix.size()) : record.role;
  };
  const auto source_of = [&](const IoRecord& record) {  // a value given on the command line is its own source
    return !with_sources || record.source == record.scalar ? std::string() : record.source;
  };
  const auto count = std::min(run.inputs.size(), kMaxLeaves);
  for (std::size_t i = 0; i < count; ++i) {
    names = std::max(names, display_width(name_of(run.inputs[i])));
    values = std::max(values, display_width(value_of(run.inputs[i])));
    sources = std::max(sources, display_width(source_of(run.inputs[i])));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto& input = run.inputs[i];
    auto text = "  " + pad_right(name_of(input), names) + "  " + pad_right(value_of(input), values);
    if (const auto source = source_of(input); !source.empty()) text += "   from " + pad_right(source, sources);
    if (const auto range = range_of(input); !range.empty()) text += "   " + range;
    text.erase(text.find_last_not_of(' ') + 1);
    out.line(text);
  }
  if (run.inputs.size() > count) out.line("  … " + std::to_string(run.inputs.size() - count) + " more");
  if (run.inputs.empty()) out.line("  no inputs");
}

void print_outputs(Output& out, const RunInfo& run) {
  const auto count = std::min(run.outputs.size(), kMaxLeaves);
  std::size_t width = 6;
  for (std::size_t i = 0; i < count; ++i) width = std::max(width, display_width(run.outputs[i].role));
  for (std::size_t i = 0; i < count; ++i) {
    const auto& output = run.outputs[i];
    auto text = pad_right(output.role, width) + "  " + value_of(output);
    if (const auto range = range_of(output); !range.empty()) text += "   " + range;
    if (!output.top.empty()) text += "   top";
    for (std::size_t k = 0; k < std::min<std::size_t>(output.top.size(), 2); ++k) {
      text += "  " + std::to_string(output.top[k].first) + " (" + format_number(output.top[k].second, 3) + ")";
    }
    out.line(text);
  }
  if (run.outputs.size() > count) out.line("… " + std::to_string(run.outputs.size() - count) + " more outputs");
}

std::string nonfinite_text(const Health& health) {
  if (!health.nonfinite.empty()) return "NaN or Inf first in " + few(health.nonfinite);
  return health.nonfinite_checked ? "no NaN, no Inf" : "NaN and Inf not looked for";
}

std::string census_text(const Health& health) {
  if (!health.witnessed) return {};
  if (health.unaccounted_calls == 0) return "dispatcher census agrees";
  return std::to_string(health.unaccounted_calls) + " of " + std::to_string(health.dispatcher_calls) +
         " dispatcher calls unaccounted for";
}

void print_health(Output& out, const RunInfo& run, const Verification& verification) {
  const auto& health = run.health;
  const auto state =
      health.state_changed.empty() ? std::string("state unchanged") : "wrote state: " + few(health.state_changed);
  out.line("health  " + joined({std::to_string(health.recorded_calls) + " of " +
                                    counted(health.operator_calls, "operator call") + " recorded",
                                census_text(health), nonfinite_text(health), state},
                               " · "));
  const auto finding = [&](const std::string& text, const std::vector<std::string>& names) {
    if (!names.empty()) out.line("        " + text + few(names));
  };
  finding("unannounced writes by ", health.unannounced_writes);
  finding("operators outside the tables: ", health.unknown_ops);
  finding("activations not kept: ", health.skipped_payloads);
  if (!verification.verified) {
    out.line("        not validated yet");
  } else if (!*verification.verified) {
    out.line("        validation failed: " + verification.reason);
  }
}

}  // namespace

void print_partial(Output& out, const Outcome& outcome) {
  if (outcome.complete()) return;
  std::string text = outcome.status + " in " + outcome.phase;
  if (!outcome.boundary_label.empty()) text += " at " + outcome.boundary_label;
  const auto reason =
      outcome.reason == outcome.boundary_label ? std::string() : joined({outcome.error_type, outcome.reason}, ": ");
  if (!reason.empty()) text += "   " + reason.substr(0, reason.find('\n'));
  out.line(Style::kError, "PARTIAL ", text);
}

void print_first_screen(Output& out, const Trace& trace, const Verification& verification,
                        const SummaryScreenOptions& options) {
  const auto summary = summarise(trace, summary_options(options));
  print_header(out, trace.run);
  print_inputs(out, trace.run, !options.stable);
  out.line();
  print_summary_table(out, trace, summary, options);
  out.line();
  print_outputs(out, trace.run);
  print_partial(out, trace.run.outcome);
  print_health(out, trace.run, verification);
}

}  // namespace tl::cli

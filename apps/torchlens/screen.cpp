#include "screen.h"

#include <algorithm>

#include "analysis/finite_check.h"
#include "core/text.h"
#include "io_finiteness.h"
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

/// Facts joined in as many lines as they need: the first line stands behind `first` columns, the others behind
/// `indent`.
std::vector<std::string> fitted(const std::vector<std::string>& facts, std::size_t first, std::size_t indent,
                                std::size_t width, std::string_view between = " · ") {
  std::vector<std::string> lines(1);
  for (const auto& fact : facts) {
    if (fact.empty()) continue;
    auto& line = lines.back();
    const auto begin = lines.size() == 1 ? first : indent;
    const auto end = begin + display_width(line) + (line.empty() ? 0 : display_width(between)) + display_width(fact);
    if (!line.empty() && width > 0 && end > width) {
      lines.push_back(fact);
    } else {
      line += (line.empty() ? "" : std::string(between)) + fact;
    }
  }
  return lines;
}

void print_header(Output& out, const RunInfo& run) {
  const auto where = run.device + ", " + counted(run.threads, "thread");
  auto lines =
      fitted({run.model_kind, run.model_class, run.engine, run.method == "forward" ? "" : "method " + run.method,
              run.mode, run.dtype, run.grad ? "gradients on" : "", where},
             display_width(run.model_file) + 3, 2, out.width());
  out.line(Style::kBold, run.model_file, "   " + lines.front());
  for (std::size_t i = 1; i < lines.size(); ++i) out.line("  " + lines[i]);
}

/// `aligned` where it fits, else the facts one after the other, folded behind `indent`.
void print_folded(Output& out, std::string aligned, const std::vector<std::string>& facts, std::size_t indent) {
  aligned.erase(aligned.find_last_not_of(' ') + 1);
  if (out.width() == 0 || display_width(escape_for_terminal(aligned)) <= out.width()) return out.line(aligned);
  const auto lines = fitted(facts, 0, indent, out.width(), "   ");
  for (std::size_t i = 0; i < lines.size(); ++i) out.line(std::string(i == 0 ? 0 : indent, ' ') + lines[i]);
}

std::string value_of(const IoRecord& record) {
  return record.dtype == DType::kNone ? record.scalar : format_type(record.dtype, record.sizes);
}

std::string range_of(const IoRecord& record) {
  if (!record.min || !record.max) return {};
  return "range " + format_number(*record.min, 3) + " .. " + format_number(*record.max, 3);
}

void print_inputs(Output& out, const Trace& trace, bool with_sources) {
  const auto& run = trace.run;
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
    const auto head = "  " + pad_right(name_of(input), names) + "  ";
    const auto source = source_of(input);
    std::vector<std::string> facts = {head + value_of(input), source.empty() ? source : "from " + source,
                                      range_of(input), nonfinite_of_role(trace, input.role)};
    auto text = head + pad_right(value_of(input), values);
    if (!source.empty()) text += "   from " + pad_right(source, sources);
    for (std::size_t k = 2; k < facts.size(); ++k) text += (facts[k].empty() ? "" : "   ") + facts[k];
    print_folded(out, std::move(text), facts, head.size());
  }
  if (run.inputs.size() > count) out.line("  … " + std::to_string(run.inputs.size() - count) + " more");
  if (run.inputs.empty()) out.line("  no inputs");
}

void print_outputs(Output& out, const Trace& trace) {
  const auto& run = trace.run;
  const auto count = std::min(run.outputs.size(), kMaxLeaves);
  std::size_t width = 6;
  for (std::size_t i = 0; i < count; ++i) width = std::max(width, display_width(run.outputs[i].role));
  for (std::size_t i = 0; i < count; ++i) {
    const auto& output = run.outputs[i];
    std::vector<std::string> facts = {pad_right(output.role, width) + "  " + value_of(output), range_of(output),
                                      nonfinite_of_role(trace, output.role), ""};
    for (std::size_t k = 0; k < std::min<std::size_t>(output.top.size(), 2); ++k) {
      facts.back() += (k == 0 ? "top  " : "  ") + std::to_string(output.top[k].first) + " (" +
                      format_number(output.top[k].second, 3) + ")";
    }
    print_folded(out, joined(facts, "   "), facts, width + 2);
  }
  if (run.outputs.size() > count) out.line("… " + std::to_string(run.outputs.size() - count) + " more outputs");
}

/// What was found, and in how many of the values it was looked for where that is not all.
std::string nonfinite_text(const Trace& trace) {
  const auto counts = count_checked(trace);
  const auto& found = trace.run.health.nonfinite;
  if (counts.nothing_checked() && found.empty()) return "NaN and Inf not looked for";
  const bool all = counts.checked == counts.checkable;
  if (!found.empty() && all) return "NaN or Inf first in " + few(found);
  std::string text = found.empty() ? "no NaN, no Inf" : "NaN or Inf in " + few(found) + " at least";
  if (all) return text;
  text += found.empty() ? " in " : ": looked at ";
  if (counts.checked > 0 || counts.sampled == 0) {
    text += std::to_string(counts.checked) + " of " + counted(counts.checkable, "value");
    if (counts.sampled > 0) text += " and samples of " + std::to_string(counts.sampled);
  } else {
    text += "samples of " + std::to_string(counts.sampled) + " of " + counted(counts.checkable, "value");
  }
  return text;
}

std::string census_text(const Health& health) {
  if (!health.witnessed) return {};
  if (health.unaccounted_calls == 0) return "dispatcher census agrees";
  return std::to_string(health.unaccounted_calls) + " of " + std::to_string(health.dispatcher_calls) +
         " dispatcher calls unaccounted for";
}

void print_health(Output& out, const Trace& trace, const Verification& verification) {
  const auto& health = trace.run.health;
  const auto state =
      health.state_changed.empty() ? std::string("state unchanged") : "wrote state: " + few(health.state_changed);
  const auto lines = fitted(
      {std::to_string(health.recorded_calls) + " of " + counted(health.operator_calls, "operator call") + " recorded",
       census_text(health), nonfinite_text(trace), state},
      8, 8, out.width());
  for (std::size_t i = 0; i < lines.size(); ++i) out.line((i == 0 ? "health  " : "        ") + lines[i]);
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
  constexpr std::size_t kIndent = 8;
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  const auto lines = fitted(words, kIndent, kIndent, out.width(), " ");
  out.line(Style::kError, "PARTIAL ", lines.size() == 1 ? text : lines.front());
  for (std::size_t i = 1; i < lines.size(); ++i) out.line(std::string(kIndent, ' ') + lines[i]);
}

void print_first_screen(Output& out, const Trace& trace, const Verification& verification,
                        const SummaryScreenOptions& options) {
  const auto summary = summarise(trace, summary_options(options));
  print_header(out, trace.run);
  print_inputs(out, trace, !options.stable);
  out.line();
  print_summary_table(out, trace, summary, options);
  out.line();
  print_outputs(out, trace);
  print_partial(out, trace.run.outcome);
  print_health(out, trace, verification);
}

}  // namespace tl::cli

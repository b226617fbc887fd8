#include "diff/gates.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>

namespace tl {
namespace {

bool is_known(const DiffReport& report, std::string_view name) {
  const auto found = std::ranges::find(report.preconditions, name, &Precondition::name);
  return found != report.preconditions.end() && found->agreement != Agreement::kUnknown;
}

/// A recording that states all of its inputs, or weights and buffers, and has none.
bool has_no(OpKind kind, const Side& side) { return side.trace && std::ranges::count(side.kind, kind) == 0; }

bool has_no_weights(const Side& side) {
  return side.trace && side.trace->params.address.size() == 0 && has_no(OpKind::kBuffer, side);
}

bool is_compared_output(const DiffSite& site) {
  const bool output = site.subject.func_name == "output" || site.reference.func_name == "output";
  return output && site.site_class != SiteClass::kNotCompared;
}

bool has_arguments(const Side& side) {
  return side.trace ||
         std::ranges::any_of(side.dump->modules, [](const DumpModule& module) { return !module.constants.empty(); });
}

/// Why nothing decides the gate; empty where something does.
std::string why_dead(FailOn gate, const Side& reference, const Side& subject, const DiffReport& report) {
  const bool by_value = gate == FailOn::kSites || gate == FailOn::kOutputs || gate == FailOn::kInputs;
  if (report.is_static && by_value) return "--static looks at no values";
  switch (gate) {
    case FailOn::kOutputs:
      if (std::ranges::any_of(report.sites, is_compared_output)) return {};
      return "no output of the model was compared";
    case FailOn::kInputs:
      if (is_known(report, "inputs") || (has_no(OpKind::kInput, reference) && has_no(OpKind::kInput, subject)))
        return {};
      return "no input has a value on both sides";
    case FailOn::kWeights:
      if (is_known(report, "weights") || is_known(report, "buffers")) return {};
      if (has_no_weights(reference) && has_no_weights(subject)) return {};
      return "no weight of one side was found in the other";
    case FailOn::kArguments:
      if (has_arguments(reference) && has_arguments(subject)) return {};
      return "one side has neither operations with arguments nor constants of modules";
    case FailOn::kSites:
    case FailOn::kStructure:
      return {};
  }
  return {};
}

bool is_in_module(std::string_view module, std::string_view name) {
  return module.starts_with(name) && (module.size() == name.size() || module[name.size()] == '.');
}

bool is_found(const RE2& pattern, const DiffSite& site) {
  return std::ranges::any_of(std::array{&site.reference, &site.subject}, [&](const SiteRef* ref) {
    return RE2::PartialMatch(ref->module, pattern) || RE2::PartialMatch(ref->label, pattern) ||
           RE2::PartialMatch(ref->func_name, pattern);
  });
}

}  // namespace

std::vector<DeadGate> dead_gates(const Side& reference, const Side& subject, const DiffReport& report,
                                 const std::vector<FailOn>& gates) {
  std::vector<DeadGate> dead;
  for (const auto gate : gates) {
    if (auto why = why_dead(gate, reference, subject, report); !why.empty()) dead.push_back({gate, std::move(why)});
  }
  return dead;
}

bool is_named(const DiffSite& site, std::string_view name) {
  return name.empty() || std::ranges::any_of(std::array{&site.reference, &site.subject}, [&](const SiteRef* ref) {
           return is_in_module(ref->module, name) || ref->label == name || ref->func_name == name;
         });
}

std::vector<std::string> unused_rules(std::string_view text, std::string_view file, const DiffReport& report) {
  std::vector<std::string> unused;
  RE2::Options options;
  options.set_log_errors(false);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (line.empty() || line.front() == '#') continue;
    const RE2 pattern(std::string(line.substr(0, line.find_first_of(" \t"))), options);
    if (std::ranges::none_of(report.sites, [&](const DiffSite& site) { return is_found(pattern, site); }))
      unused.push_back(std::string(file) + ":" + std::to_string(number));
  }
  return unused;
}

}  // namespace tl

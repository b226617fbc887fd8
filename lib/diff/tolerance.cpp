#include "diff/tolerance.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "diff/gates.h"

namespace tl {
namespace {

/// A tolerance for one name, or for all where the name is empty.
struct Named {
  std::string name;
  double value = 0;
};

struct Rule {
  std::unique_ptr<RE2> pattern;  ///< null: every site
  Predicate predicate;
  std::string origin;  ///< `--gate`, or file:line
};

std::string shortest(double value) {
  std::array<char, 32> buffer;
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

std::string three_digits(double value) {
  if (std::isinf(value)) return "infinite";
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, 3);
  return {buffer.data(), end.ptr};
}

Named parse_named(std::string_view option, std::string_view argument) {
  const std::size_t equals = argument.rfind('=');
  Named named;
  if (equals != std::string_view::npos) named.name = std::string(argument.substr(0, equals));
  const std::string_view digits = equals == std::string_view::npos ? argument : argument.substr(equals + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), named.value);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || !std::isfinite(named.value) || named.value < 0 || equals == 0) {
    throw Error(ErrorCode::kUsage, std::string(option) + " " + std::string(argument) + " is no tolerance",
                "write " + std::string(option) + " 1e-3, or " + std::string(option) + " blocks.7=1e-3 for one module");
  }
  return named;
}

/// The last tolerance for a name of the site, else the last one for all.
const Named* find_named(const std::vector<Named>& all, const DiffSite& site) {
  const Named* found = nullptr;
  for (const Named& named : all) {
    if (is_named(site, named.name) && (found == nullptr || found->name.empty() || !named.name.empty())) found = &named;
  }
  return found;
}

bool fits(const Rule& rule, const DiffSite& site) {
  if (!rule.pattern) return true;
  return std::ranges::any_of(std::array{&site.reference, &site.subject}, [&](const SiteRef* ref) {
    return RE2::PartialMatch(ref->module, *rule.pattern) || RE2::PartialMatch(ref->label, *rule.pattern) ||
           RE2::PartialMatch(ref->func_name, *rule.pattern);
  });
}

/// A regular expression, spaces, a predicate.
Rule parse_rule(std::string_view line, std::string origin) {
  const std::size_t begin = line.find_first_of(" \t");
  const std::size_t end = line.find_first_not_of(" \t", begin);
  if (end == std::string_view::npos) {
    throw Error(ErrorCode::kUsage,
                origin + ": `" + std::string(line) + "` has no predicate after the regular expression",
                "a rule reads like: ^blocks\\.7\\. rel_l2 <= 1e-3 and max_abs < 0.1");
  }
  RE2::Options options;
  options.set_log_errors(false);
  auto pattern = std::make_unique<RE2>(std::string(line.substr(0, begin)), options);
  if (!pattern->ok()) {
    throw Error(ErrorCode::kUsage,
                origin + ": `" + pattern->pattern() + "` is no regular expression: " + pattern->error());
  }
  try {
    return {std::move(pattern), Predicate::parse(line.substr(end)), std::move(origin)};
  } catch (Error& error) {
    error.message = origin + ": " + error.message;
    throw;
  }
}

std::string_view trimmed(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

std::string counted(std::size_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

/// What broke |s - r| <= atol + rtol |r|, and what would do instead.
std::string broken_text(const TensorComparison& metrics, const ElementTolerance& tolerance) {
  std::string text = std::to_string(metrics.mismatched) + " of " +
                     counted(static_cast<std::size_t>(metrics.numel), "element") + " exceed " +
                     shortest(tolerance.atol) + " + " + shortest(tolerance.rtol) + " |r|";
  if (metrics.nonfinite_disagreements > 0) {
    return text + ", " + std::to_string(metrics.nonfinite_disagreements) + " by NaN or infinity";
  }
  text += "; atol " + three_digits(metrics.needed_atol);
  if (std::isfinite(metrics.needed_rtol)) text += " or rtol " + three_digits(metrics.needed_rtol);
  return text + " would pass";
}

}  // namespace

struct Tolerances::Parts {
  bool exact = false;
  std::vector<Rule> gates;
  std::vector<Rule> rules;
  std::vector<std::string> files;
  std::vector<Named> rtol;
  std::vector<Named> atol;
};

Tolerances::Tolerances() : parts_(std::make_unique<Parts>()) {}
Tolerances::~Tolerances() = default;
Tolerances::Tolerances(Tolerances&&) noexcept = default;
Tolerances& Tolerances::operator=(Tolerances&&) noexcept = default;

void Tolerances::set_exact() { parts_->exact = true; }
void Tolerances::add_rtol(std::string_view argument) { parts_->rtol.push_back(parse_named("--rtol", argument)); }
void Tolerances::add_atol(std::string_view argument) { parts_->atol.push_back(parse_named("--atol", argument)); }

void Tolerances::add_gate(std::string_view argument) {
  // A regular expression in front of a predicate is followed by a word that no operator is; try the plain form first.
  const std::string_view text = trimmed(argument);
  const std::size_t space = text.find_first_of(" \t");
  const std::string_view first = text.substr(0, space);
  const std::size_t next = text.find_first_not_of(" \t", space);
  const bool is_predicate = next == std::string_view::npos || first == "not" || first.starts_with('(') ||
                            std::string_view("<>").find(text[next]) != std::string_view::npos ||
                            first.find_first_of("<>") != std::string_view::npos;
  if (is_predicate) {
    parts_->gates.push_back({nullptr, Predicate::parse(text), "--gate"});
  } else {
    parts_->gates.push_back(parse_rule(text, "--gate"));
  }
}

void Tolerances::add_rules(std::string_view text, std::string_view name) {
  parts_->files.emplace_back(name);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty() || line.front() == '#') continue;
    parts_->rules.push_back(parse_rule(line, std::string(name) + ":" + std::to_string(number)));
  }
}

bool Tolerances::empty() const {
  return !parts_->exact && parts_->gates.empty() && parts_->rules.empty() && parts_->rtol.empty() &&
         parts_->atol.empty();
}

std::optional<ElementTolerance> Tolerances::element_tolerance(const DiffSite& site) const {
  const Named* rtol = find_named(parts_->rtol, site);
  const Named* atol = find_named(parts_->atol, site);
  if (rtol == nullptr && atol == nullptr) return std::nullopt;
  return ElementTolerance{.rtol = rtol == nullptr ? 0 : rtol->value, .atol = atol == nullptr ? 0 : atol->value};
}

std::optional<ToleranceJudgement> Tolerances::judge(const DiffSite& site) const {
  if (parts_->exact) {
    if (!site.metrics) return std::nullopt;
    if (site.metrics->equal()) return ToleranceJudgement{};
    return ToleranceJudgement{
        false, "--exact: " + counted(static_cast<std::size_t>(site.metrics->differing), "element") + " of " +
                   std::to_string(site.metrics->numel) + " differ"};
  }
  for (const auto* rules : {&parts_->gates, &parts_->rules}) {
    const auto rule = std::ranges::find_if(*rules, [&](const Rule& each) { return fits(each, site); });
    if (rule == rules->end()) continue;
    const auto broken = rule->predicate.broken_by(site);
    if (!broken) return ToleranceJudgement{true, {}, rule->predicate.is_ignore()};
    return ToleranceJudgement{false, rule->origin + ": " + *broken};
  }
  const auto tolerance = element_tolerance(site);
  if (!tolerance || !site.metrics) return std::nullopt;
  if (site.metrics->mismatched == 0) return ToleranceJudgement{};
  return ToleranceJudgement{false, broken_text(*site.metrics, *tolerance)};
}

std::string Tolerances::description() const {
  if (parts_->exact) return "no element may differ";
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  for (const Rule& rule : parts_->gates) {
    add(rule.pattern ? rule.pattern->pattern() + " " + rule.predicate.text() : rule.predicate.text());
  }
  for (const std::string& file : parts_->files) add("the rules of " + file);
  if (!parts_->rtol.empty() || !parts_->atol.empty()) {
    const auto of_all = [](const std::vector<Named>& all) {
      const auto last = std::find_if(all.rbegin(), all.rend(), [](const Named& named) { return named.name.empty(); });
      return last == all.rend() ? 0.0 : last->value;
    };
    const bool global = std::ranges::any_of(parts_->rtol, [](const Named& named) { return named.name.empty(); }) ||
                        std::ranges::any_of(parts_->atol, [](const Named& named) { return named.name.empty(); });
    if (global) add("|s - r| <= " + shortest(of_all(parts_->atol)) + " + " + shortest(of_all(parts_->rtol)) + " |r|");
    for (const Named& named : parts_->rtol) {
      if (!named.name.empty()) add(named.name + ": rtol " + shortest(named.value));
    }
    for (const Named& named : parts_->atol) {
      if (!named.name.empty()) add(named.name + ": atol " + shortest(named.value));
    }
  }
  return text;
}

NeededTolerances needed_tolerances(const DiffReport& report) {
  NeededTolerances needed;
  for (const DiffSite& site : report.sites) {
    if (!is_judged(site)) continue;
    needed.error = std::max(needed.error, site.error);
    if (!site.metrics) continue;
    const double none = site.metrics->nonfinite_disagreements > 0 ? std::numeric_limits<double>::infinity() : 0;
    needed.atol = std::max({needed.atol, site.metrics->needed_atol, none});
    needed.rtol = std::max({needed.rtol, site.metrics->needed_rtol, none});
  }
  return needed;
}

}  // namespace tl

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "core/error.h"
#include "core/output_file.h"
#include "core/text.h"
#include "diff/contents.h"
#include "diff/diff.h"
#include "diff/gates.h"
#include "diff/map_rules.h"
#include "diff/reports.h"
#include "diff_options.h"
#include "diff_screen.h"
#include "diff_sides.h"
#include "diff_weights.h"
#include "option_groups.h"
#include "select/selection.h"
#include "text_format.h"
#include "trace_options.h"

namespace tl::cli {
namespace {

namespace fs = std::filesystem;

struct FailOnName {
  std::string_view name;
  FailOn what;
};
constexpr std::array kFailOnNames = {
    FailOnName{"sites", FailOn::kSites},         FailOnName{"outputs", FailOn::kOutputs},
    FailOnName{"arguments", FailOn::kArguments}, FailOnName{"weights", FailOn::kWeights},
    FailOnName{"inputs", FailOn::kInputs},       FailOnName{"structure", FailOn::kStructure},
};

std::vector<FailOn> fail_on_of(const std::vector<std::string>& lists) {
  std::vector<FailOn> result;
  for (const auto& list : lists) {
    std::size_t begin = 0;
    while (begin <= list.size()) {
      const auto end = std::min(list.find(',', begin), list.size());
      const auto name = list.substr(begin, end - begin);
      const auto* found = std::ranges::find(kFailOnNames, name, &FailOnName::name);
      if (found == kFailOnNames.end()) {
        throw Error(ErrorCode::kUsage, "--fail-on " + name + ": not known",
                    "use one or more of sites, outputs, arguments, weights, inputs, structure");
      }
      result.push_back(found->what);
      begin = end + 1;
    }
  }
  return result;
}

std::string read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::kFileMissing, path + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

Tolerances tolerances_of(const DiffCommandOptions& command) {
  Tolerances tolerances;
  if (command.exact) tolerances.set_exact();
  for (const auto& value : command.rtol) tolerances.add_rtol(value);
  for (const auto& value : command.atol) tolerances.add_atol(value);
  for (const auto& gate : command.gates) tolerances.add_gate(gate);
  if (!command.rules.empty()) tolerances.add_rules(read_text_file(command.rules), command.rules);
  return tolerances;
}

/// What the command line asks for, without what belongs to one side or sample.
DiffOptions options_of(const DiffCommandOptions& command) {
  DiffOptions options;
  options.values = !command.is_static;
  options.min_coverage = command.min_coverage;
  options.reference_name = command.reference;
  options.subject_name = command.subject;
  if (!command.map.empty()) options.rename = parse_map_rules(read_text_file(command.map), command.map);
  if (!command.fail_on.empty()) options.fail_on = fail_on_of(command.fail_on);
  options.again = repeat_line(command);
  return options;
}

void check_options(const DiffCommandOptions& options, bool has_model) {
  if (options.is_static && (!options.inputs.empty() || !options.randoms.empty())) {
    throw Error(ErrorCode::kUsage, "--static runs nothing, so that --input and --random have no use",
                "leave them out, or leave out --static");
  }
  if (!has_model && (!options.inputs.empty() || !options.randoms.empty())) {
    throw Error(ErrorCode::kUsage, "--input and --random are for model files; both sides are recordings",
                "leave them out");
  }
}

class DiffRun {
 public:
  DiffRun(const DiffCommandOptions& command, Context& context) : command_(command), context_(context) {}

  int run() {
    if (command_.json || command_.format == "json") context_.format = Format::kJson;
    for (const auto& report : command_.reports) targets_.push_back(parse_report_target(report));
    const bool reference_runs = is_model_file(command_.reference);
    const bool subject_runs = is_model_file(command_.subject);
    check_map_target();
    if (!command_.timeout.empty()) static_cast<void>(parse_seconds("--timeout", command_.timeout));
    check_options(command_, reference_runs || subject_runs);
    auto options = options_of(command_);
    const auto tolerances = tolerances_of(command_);
    options.tolerances = &tolerances;
    if (command_.is_static && compares_contents(command_.reference, command_.subject)) {
      report_ = compare_files(options);
      return finish();
    }
    const ScratchDirectory inputs_scratch;
    auto inputs = command_.inputs;
    if (reference_runs != subject_runs && inputs.empty() && command_.randoms.empty()) {
      const auto& recording = reference_runs ? command_.subject : command_.reference;
      const auto file = inputs_scratch.path() / "inputs.safetensors";
      if (save_recorded_inputs(recording, file)) {
        inputs = {file.string()};
        if (!context_.quiet()) {
          context_.err.line(Style::kHint,
                            "note: ", "no --input given: the inputs stored in " + recording + " are used");
        }
      }
    }
    const auto samples = input_samples(inputs);
    if (samples.size() > 1 && reference_runs != subject_runs) {
      const auto& recording = reference_runs ? command_.subject : command_.reference;
      throw Error(ErrorCode::kUsage,
                  recording + " is a recording of one run, --input gives " + std::to_string(samples.size()) + " inputs",
                  "give the input that it was recorded with, or compare two model files");
    }
    std::vector<DiffReport> reports;
    for (std::size_t sample = 0; sample < samples.size(); ++sample) {
      const ScratchDirectory scratch;
      auto reference = command_.reference;
      auto subject = command_.subject;
      if (reference_runs && !record(reference, samples[sample], scratch.path() / "reference.tlspec")) return code_;
      if (subject_runs && !record(subject, samples[sample], scratch.path() / "subject.tlspec")) return code_;
      reports.push_back(compare(reference, subject, options));
      if (reference_runs) reports.back().reference.details += " · run now";
      if (subject_runs) reports.back().subject.details += " · run now";
    }
    report_ = reports.size() == 1 ? std::move(reports[0]) : merge_samples(std::move(reports), sample_names(samples));
    return finish();
  }

 private:
  /// Records the model and puts the recording in its place; false with code_ set when the run failed.
  bool record(std::string& side, const std::vector<std::string>& inputs, const fs::path& target) {
    code_ = record_model(command_, side, inputs, target, context_);
    if (code_ == 0) side = target.string();
    return code_ == 0;
  }

  /// Model files and files of weights as they are, without running anything.
  DiffReport compare_files(const DiffOptions& options) {
    for (const auto& [name, value] :
         {std::pair("--only", &command_.only), std::pair("--write-map", &command_.write_map)}) {
      if (value->empty()) continue;
      throw Error(ErrorCode::kUsage,
                  std::string(name) + " needs recordings on both sides; with --static a model file has none",
                  "leave it out, or record the model with torchlens trace --level audit");
    }
    return compare_contents(load_contents(command_.reference, command_.threads),
                            load_contents(command_.subject, command_.threads), options);
  }

  DiffReport compare(const std::string& reference, const std::string& subject, const DiffOptions& options) {
    const auto ours = load_side(reference, options.values);
    const auto theirs = load_side(subject, options.values);
    const auto left = ours.trace ? make_side(*ours.trace, options.rename) : make_side(*ours.dump, options.rename);
    const auto right = theirs.trace ? make_side(*theirs.trace) : make_side(*theirs.dump);
    auto chosen = options;
    const auto our_weights = weights_of(command_.reference, reference, ours);
    const auto their_weights = weights_of(command_.subject, subject, theirs);
    chosen.weights = {our_weights.get(), their_weights.get()};
    if (!command_.only.empty()) chosen.only = selected_rows(right.trace ? *right.trace : require_trace(left));
    auto compared = compare_recordings(left, right, chosen);
    if (reference == command_.reference) check_blamed_files(compared.report, reference, ours, true);
    if (subject == command_.subject) check_blamed_files(compared.report, subject, theirs, false);
    if (!command_.fail_on.empty()) check_gates(dead_gates(left, right, compared.report, options.fail_on));
    note_unused(left, compared.report);
    if (!command_.write_map.empty()) write_map(compared.alignment);
    return std::move(compared.report);
  }

  static void check_gates(const std::vector<DeadGate>& dead) {
    if (dead.empty()) return;
    const auto* name = std::ranges::find(kFailOnNames, dead[0].gate, &FailOnName::what);
    throw Error(ErrorCode::kUsage, "--fail-on " + std::string(name->name) + " can decide nothing: " + dead[0].why,
                "leave it out, or record what it is to look at");
  }

  /// What was said on the command line, or in a file that it names, and speaks of nothing in these recordings.
  void note_unused(const Side& reference, const DiffReport& report) const {
    std::vector<std::string> unused;
    const auto add = [&](const std::string& option, const std::vector<std::string>& arguments) {
      for (const auto& argument : arguments) {
        const auto name = std::string_view(argument).substr(0, argument.rfind('='));
        if (argument.find('=') == std::string::npos) continue;
        if (std::ranges::none_of(report.sites, [&](const DiffSite& site) { return is_named(site, name); }))
          unused.push_back(option + " " + argument);
      }
    };
    add("--rtol", command_.rtol);
    add("--atol", command_.atol);
    const auto append = [&](const std::string& option, const std::vector<std::string>& lines) {
      for (const auto& line : lines) unused.push_back(option + " " + line);
    };
    if (!command_.rules.empty())
      append("--rules", unused_rules(read_text_file(command_.rules), command_.rules, report));
    if (!command_.map.empty()) append("--map", unused_map_rules(read_text_file(command_.map), command_.map, reference));
    for (const auto& each : unused) context_.err.line(Style::kHint, "note: ", each + " matches nothing");
  }

  /// Where the values of a side's parameters are: in the model file that was given, or the one that the recording was
  /// made of; null where there is none.
  static std::unique_ptr<WeightSource> weights_of(const std::string& given, const std::string& recording,
                                                  const LoadedSide& side) {
    if (!side.trace) return nullptr;
    const auto model = given != recording ? fs::path(given) : model_beside(recording, *side.trace);
    return model.empty() ? nullptr : weights_of_model(model);
  }

  const Trace& require_trace(const Side& side) const {
    if (!side.trace) throw Error(ErrorCode::kUsage, "--only needs a recording with operations on one side");
    return *side.trace;
  }

  std::vector<bool> selected_rows(const Trace& trace) const {
    std::vector<bool> rows(trace.num_ops(), false);
    for (const auto& site : resolve(Selector::parse(command_.only), trace).sites) rows[site.op.index()] = true;
    return rows;
  }

  /// Rules that somebody wrote by hand are not lost to a slip.
  void check_map_target() const {
    std::error_code error;
    if (command_.write_map.empty() || command_.force || !fs::exists(fs::symlink_status(command_.write_map, error)))
      return;
    throw Error(ErrorCode::kOutputExists, command_.write_map + ": exists", "pass --force to replace it");
  }

  void write_map(const Alignment& alignment) const {
    write_file(command_.write_map, map_rules_text(alignment.renamed));
  }

  /// `x=calib/s3.safetensors` as `x=s3.safetensors`: samples of one folder differ in the last part alone.
  static std::string file_name_of(const std::string& input) {
    const auto slash = input.rfind('/');
    if (slash == std::string::npos) return input;
    const auto equals = input.find('=');
    const auto name = equals < slash ? input.substr(0, equals + 1) : std::string();
    return name + input.substr(slash + 1);
  }

  static std::vector<std::string> sample_names(const std::vector<std::vector<std::string>>& samples) {
    std::vector<std::string> names;
    for (const auto& inputs : samples) {
      std::string name;
      for (const auto& input : inputs) name += (name.empty() ? "" : " ") + file_name_of(input);
      names.push_back(name);
    }
    return names;
  }

  int finish() {
    const auto options = report_options();
    for (const auto& target : targets_) save_report(report_, target, options);
    const auto format = report_format_from_name(command_.json ? "json" : command_.format);
    if (format) {
      context_.out.raw(make_report(report_, *format, options));
    } else {
      print_screen();
    }
    return report_.different ? static_cast<int>(ExitCode::kNegativeVerdict) : 0;
  }

  ReportOptions report_options() const {
    ReportOptions options;
    if (command_.max_diffs >= 0) options.max_rows = static_cast<std::size_t>(command_.max_diffs);
    if (const char* workspace = std::getenv("GITHUB_WORKSPACE")) options.workspace = workspace;
    return options;
  }

  void print_screen() {
    DiffScreenOptions screen;
    screen.verdict_only = context_.quiet();
    screen.sort = command_.sort;
    screen.every_argument = context_.verbosity > 0;
    const bool lists = command_.sort != "order" || report_.samples.size() > 1 || context_.verbosity > 0;
    screen.max_diffs = command_.max_diffs >= 0 ? command_.max_diffs : lists ? 20 : 0;
    print_diff(context_.out, report_, screen);
  }

  const DiffCommandOptions& command_;
  Context& context_;
  std::vector<ReportTarget> targets_;
  DiffReport report_;
  int code_ = 0;
};

void add_run_options(CLI::App& app, DiffCommandOptions& options) {
  const std::string group = "Running model files";
  add_repeated(app, "-i,--input", options.inputs,
               "inputs of the models, as for trace; 'calib/*.safetensors' compares one run a file; repeatable", "INPUT",
               group);
  add_repeated(app, "--random", options.randoms, "a random tensor: x:f32[2,3]; repeatable", "NAME:TYPE[SIZES]", group);
  app.add_option("--seed", options.seed, "seed of the runs and of --random; default 0")->type_name("N")->group(group);
  app.add_option("--threads", options.threads, "threads of LibTorch")
      ->check(CLI::Range(1, 4096))
      ->type_name("N")
      ->group(group);
  app.add_option("--timeout", options.timeout, "stop a run after so long (30, 2m)")->type_name("TIME")->group(group);
  add_extension_options(app, options.libraries, options.allowed_ops, group);
}

void add_match_options(CLI::App& app, DiffCommandOptions& options) {
  const std::string group = "What is compared";
  app.add_flag("--static", options.is_static,
               "weights, arguments, structure as recordings and model files tell them; runs nothing")
      ->group(group);
  app.add_option("--only", options.only, "judge these sites of the subject only, in the words of `query`")
      ->type_name("SELECTOR")
      ->group(group);
  app.add_option("--map", options.map, "rules PATTERN -> REPLACEMENT from names of the reference to the subject's")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--write-map", options.write_map, "write the rules for modules that were found under other names")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--force", options.force, "replace the file of --write-map")->group(group);
  app.add_option("--min-coverage", options.min_coverage, "refuse when less than this share of sites was compared")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("SHARE")
      ->group(group);
}

void add_report_options(CLI::App& app, DiffCommandOptions& options) {
  const std::string group = "Reports";
  app.add_option("--format", options.format, "of the result: text, json, jsonl, csv, md, html, junit, github")
      ->check(CLI::IsMember({"text", "json", "jsonl", "csv", "md", "html", "junit", "github"}))
      ->type_name("FORMAT")
      ->group(group);
  app.add_flag("--json", options.json, "the same as --format json")->group(group);
  add_repeated(app, "--report", options.reports,
               "also write a report; the extension tells the format; md appends; repeatable", "[FORMAT:]PATH", group);
}

void add_verdict_options(CLI::App& app, DiffCommandOptions& options) {
  const std::string group = "Verdict";
  app.add_flag("--exact", options.exact, "every value must be equal")->group(group);
  add_repeated(app, "--rtol", options.rtol,
               "|s - r| <= atol + rtol |r| for every element; NAME=X for a module, layer or function; repeatable", "X",
               group);
  add_repeated(app, "--atol", options.atol, "see --rtol", "X", group);
  add_repeated(app, "--gate", options.gates, "a condition on metrics: 'rel_l2 <= 1e-3 and max_abs < 0.1'; repeatable",
               "RULE", group);
  app.add_option("--rules", options.rules, "a file of lines `REGEX CONDITION`")->type_name("FILE")->group(group);
  add_repeated(app, "--fail-on", options.fail_on,
               "what makes the verdict negative: sites, outputs (default both), arguments, weights, inputs, structure",
               "LIST", group);
  app.add_option("--max-diffs", options.max_diffs, "list so many sites that are out of tolerance")
      ->check([](const std::string& text) { return text.starts_with('-') ? text + " is less than 0" : std::string(); })
      ->type_name("N")
      ->group(group);
  app.add_option("--sort", options.sort,
                 "order of the list: order (of the run), local (what a site adds), total, worst (over samples)")
      ->check(CLI::IsMember({"order", "local", "total", "worst"}))
      ->type_name("KEY")
      ->group(group);
}

}  // namespace

std::string repeat_line(const DiffCommandOptions& options) {
  std::string line = "torchlens diff " + shell_quoted(options.reference) + " " + shell_quoted(options.subject);
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) line += " " + std::string(name) + " " + shell_quoted(value);
  };
  for (const auto& input : options.inputs) add("--input", input);
  for (const auto& random : options.randoms) add("--random", random);
  if (options.seed != 0) add("--seed", std::to_string(options.seed));
  if (options.threads != 0) add("--threads", std::to_string(options.threads));
  for (const auto& library : options.libraries) add("--load-library", library);
  for (const auto& op : options.allowed_ops) add("--allow-op", op);
  add("--timeout", options.timeout);
  if (options.is_static) line += " --static";
  add("--map", options.map);
  add("--only", options.only);
  if (options.min_coverage > 0) add("--min-coverage", format_number(options.min_coverage, 6));
  if (options.exact) line += " --exact";
  for (const auto& value : options.rtol) add("--rtol", value);
  for (const auto& value : options.atol) add("--atol", value);
  for (const auto& gate : options.gates) add("--gate", gate);
  add("--rules", options.rules);
  for (const auto& list : options.fail_on) add("--fail-on", list);
  if (options.sort != "order") add("--sort", options.sort);
  if (options.max_diffs >= 0) add("--max-diffs", std::to_string(options.max_diffs));
  return line;
}

Runner add_diff_command(CLI::App& app) {
  auto options = std::make_shared<DiffCommandOptions>();
  app.add_option("REFERENCE", options->reference, "what is held to be right: a recording or a model file")
      ->type_name("");
  app.add_option("SUBJECT", options->subject, "what is compared with it")->type_name("");
  add_match_options(app, *options);
  add_verdict_options(app, *options);
  add_report_options(app, *options);
  add_run_options(app, *options);
  return [options](Context& context) {
    if (options->reference.empty() || options->subject.empty()) {
      throw Error(ErrorCode::kUsage, "two recordings or models are needed", "torchlens diff REFERENCE SUBJECT");
    }
    return DiffRun(*options, context).run();
  };
}

}  // namespace tl::cli

#include "run_trace.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "archive/source_texts.h"
#include "archive/torchscript_check.h"
#include "archive/zip_directory.h"
#include "cli.h"
#include "core/digest.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "dry_run.h"
#include "engine/bind_inputs.h"
#include "engine/supervisor.h"
#include "json_output.h"
#include "postprocess/pipeline.h"
#include "progress.h"
#include "run_outputs.h"
#include "screen.h"
#include "sparse_report.h"
#include "step_watch.h"
#include "text_format.h"
#include "tlspec/writer.h"
#include "trace_end.h"
#include "value_rules.h"

namespace tl::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

ModelRequest request_of(const TraceOptions& options) {
  ModelRequest request;
  request.path = options.model;
  request.model = options.program;
  request.libraries = options.libraries;
  request.allowed_ops = options.allowed_ops;
  request.method = options.method;
  request.device = options.device;
  request.threads = options.threads;
  if (options.train) request.mode = ModelRequest::Mode::kTrain;
  if (options.eval) request.mode = ModelRequest::Mode::kEval;
  return request;
}

class TraceRun {
 public:
  TraceRun(const TracePlan& plan, Engine& engine, Context& context, CrashSlate& slate)
      : plan_(plan), options_(plan.options), engine_(engine), context_(context), slate_(slate) {}

  int run() {
    load();
    const auto& signature = session_->info().signature;
    const auto bound = bind(signature);
    rules_.emplace(plan_, context_);
    const InterruptScope scope;  // until the recording is in place: from here on there is something to keep
    execute(bound);
    fill_facts(bound);
    capture_.statistics = rules_->take_statistics();
    if (options_.sparse) return finish_later();
    set_phase(slate_, "postprocessing");
    StepWatch watch(options_.steps, context_.out, context_.err);
    trace_ = run_pipeline(std::move(capture_), watch.observers(),
                          {.stop_after = options_.steps.stop_after, .sources = sources_});
    watch.finish(trace_);
    if (!trace_.finished) return 0;
    rules_->settle(trace_, result_);
    if (options_.dry_run) {
      print_dry_run(context_, trace_, plan_.save, rules_->budget_bytes());
      return 0;
    }
    write();
    note_late_interrupt();
    report();
    return exit_code();
  }

 private:
  /// What `--sparse` leaves to `torchlens finish` is all that comes after the run.
  int finish_later() {
    rules_->check_stop(capture_.run, capture_.events.size(), result_);
    rules_->settle_sparse(capture_, result_);
    auto recording = make_sparse(std::move(capture_));
    recording.sources = sources_;
    set_phase(slate_, "writing the recording");
    WriteOptions write_options;
    write_options.level = plan_.level;
    write_options.force = options_.force;
    written_ = write_sparse(recording, plan_.output, write_options);
    trace_ = std::move(recording.trace);
    if (!options_.save_outputs.empty() && trace_.run.outcome.complete())
      save_outputs(result_.outputs, options_.save_outputs);
    note_late_interrupt();
    report_sparse(context_, trace_, plan_.output, written_, exit_code() == 0);
    report_error();
    return exit_code();
  }

  void load() {
    set_phase(slate_, "loading the model");
    const auto start = Clock::now();
    session_ = engine_.load(request_of(options_));
    load_seconds_ = seconds_since(start);
  }

  /// What was given; where nothing was, the example call that the file stores.
  BoundInputs bind(const Signature& signature) {
    const auto& stored = session_->info().stored_arguments;
    if (plan_.given.empty() && session_->info().stored_refusal) throw Error(*session_->info().stored_refusal);
    if (!plan_.given.empty() || stored.empty()) {
      return bind_inputs(signature, plan_.given, read_stated_inputs(plan_.file.path, signature));
    }
    context_.err.line(Style::kHint, "note: ", "no --input given: the example inputs stored in the file are used");
    return {stored, std::vector<bool>(stored.size(), true)};
  }

  void execute(const BoundInputs& bound) {
    set_phase(slate_, "running the model");
    RunRequest request;
    request.arguments = bound.arguments;
    request.given = bound.given;
    request.seed = options_.seed;
    request.grad = options_.grad;
    rules_->apply(request);
    request.witness = options_.witness;
    Progress progress(context_, slate_);
    request.progress = [&](std::size_t events) { progress(events); };
    try {
      result_ = session_->run(request, capture_);
    } catch (const Interrupted& stop) {
      stopped_by_ = stop;
      note_interrupt(stop.what());
    }
    progress.finish();
    for (const auto& note : result_.notes) context_.err.line(Style::kHint, "note: ", note);
    slate_.events = capture_.events.size();
  }

  /// What an engine that let the exception through has not noted itself.
  void note_interrupt(const char* reason) {
    auto& outcome = capture_.run.outcome;
    outcome.status = "interrupted";
    outcome.origin = "interrupt";
    if (outcome.reason.empty()) outcome.reason = reason;
    if (outcome.n_ops_committed == 0) outcome.n_ops_committed = num_operations(capture_);
  }

  /// The model ended by itself; what came after it was let finish.
  void note_late_interrupt() {
    if (!stopped_by_ && trace_.run.outcome.complete()) stopped_by_ = pending_interrupt();
  }

  void fill_facts(const BoundInputs& bound) {
    const auto& info = session_->info();
    auto& run = capture_.run;
    run.model_file = plan_.file.path.filename().string();
    run.model_kind = info.kind;
    run.model_bytes = static_cast<std::int64_t>(plan_.file.size);
    const auto file = MappedFile::open(plan_.file.path);
    run.model_digest = digest_hex(file->bytes());
    if (plan_.file.kind == ModelKind::kTorchScript) {
      const ZipDirectory zip(file->bytes(), run.model_file);
      has_positions_ = has_source_positions(zip);
      const bool asks = capture_.branches.size() > 0 || capture_.strings.find("aten::Bool") >= 0;
      if (has_positions_ && asks) sources_ = read_source_texts(zip);
    }
    run.model_class = info.class_name;
    run.engine = engine_.version();
    run.method = options_.method;
    run.mode = info.mode;
    run.device = options_.device;
    run.dtype = info.dtype;
    run.save = rules_->save_text();
    if (options_.threads > 0) run.threads = options_.threads;
    run.seed = options_.seed;
    run.grad = options_.grad;
    run.inputs = input_records(info.signature, bound);
    run.outputs = output_records(result_.outputs, capture_);
    run.load_seconds = load_seconds_;
    run.forward_seconds = result_.forward_seconds;
  }

  void write() {
    set_phase(slate_, "writing the recording");
    WriteOptions write_options;
    write_options.level = plan_.level;
    write_options.force = options_.force;
    write_options.stream = rules_->stream();
    written_ = write_tlspec(trace_, plan_.output, write_options);
    if (!options_.save_outputs.empty() && trace_.run.outcome.complete())
      save_outputs(result_.outputs, options_.save_outputs);
  }

  void report() {
    const Verification verification{std::nullopt, "not validated"};
    if (context_.format == Format::kJson) {
      auto body = first_screen_json(trace_, verification, options_.summary);
      body["output"] = plan_.output.string();
      body["output_bytes"] = written_.bytes;
      if (const auto code = error_code()) {
        body["error"] = {
            {"code", to_string(*code)}, {"message", end_message(trace_.run, end())}, {"exit", exit_code()}};
      }
      context_.out.raw(json_envelope("trace", exit_code() == 0, body));
    } else {
      print_first_screen(context_.out, trace_, verification, options_.summary);
    }
    context_.out.flush();
    print_wrote();
    report_error();
  }

  void report_error() const {
    if (const auto code = error_code()) {
      context_.err.message(Style::kError,
                           "error[" + std::string(to_string(*code)) + "]: ", end_message(trace_.run, end()));
      print_end_details(context_.err, trace_);
      const bool whole = trace_.run.outcome.complete();
      context_.err.line(
          Style::kBold, "note: ",
          (whole ? "the recording is complete, in " : "the recording up to there is kept in ") + plan_.output.string());
    }
  }

  void print_wrote() {
    if (context_.quiet()) return;
    if (!trace_.run.save_note.empty()) context_.err.line(Style::kBold, "note: ", trace_.run.save_note);
    if (!has_positions_) {
      context_.err.line(Style::kBold, "note: ",
                        trace_.run.model_file +
                            " stores no source positions (.debug_pkl): places are those of its own code, "
                            "repeats that a trace unrolled are layers of their own");
    }
    const auto output = plan_.output.string();
    context_.err.line("wrote   " + output + "   " + format_bytes(written_.bytes));
    if (!options_.save_outputs.empty() && trace_.run.outcome.complete())
      context_.err.line("wrote   " + options_.save_outputs);
    auto key = std::string();
    for (const auto& row : summarise(trace_).rows) {
      if (row.module.valid()) key = std::string(trace_.strings[trace_.modules.address[row.module.index()]]);
    }
    context_.err.line("next    torchlens show " + shell_quoted(output) +
                      (key.empty() ? " --layers" : " " + shell_quoted(key)));
  }

  RunEnd end() const {
    return {stopped_by_, options_.timeout.empty() ? 0 : parse_seconds("--timeout", options_.timeout)};
  }
  std::optional<ErrorCode> error_code() const { return end_code(trace_.run.outcome, end()); }

  int exit_code() const {
    const auto code = error_code();
    return code ? static_cast<int>(exit_code_of(*code)) : 0;
  }

  const TracePlan& plan_;
  const TraceOptions& options_;
  Engine& engine_;
  Context& context_;
  CrashSlate& slate_;
  std::unique_ptr<Session> session_;
  std::optional<ValueRules> rules_;
  Capture capture_;
  std::vector<SourceText> sources_;  ///< where the run met conditionals
  RunResult result_;
  Trace trace_;
  WriteReport written_;
  double load_seconds_ = 0;
  bool has_positions_ = true;
  std::optional<Interrupted> stopped_by_;
};

}  // namespace

int run_trace(const TracePlan& plan, Engine& engine, Context& context, CrashSlate& slate) {
  return TraceRun(plan, engine, context, slate).run();
}

}  // namespace tl::cli

#include "run_trace.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "analysis/finite_check.h"
#include "cli.h"
#include "core/digest.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "engine/bind_inputs.h"
#include "engine/supervisor.h"
#include "json_output.h"
#include "postprocess/pipeline.h"
#include "progress.h"
#include "run_outputs.h"
#include "screen.h"
#include "step_watch.h"
#include "text_format.h"
#include "tlspec/writer.h"

namespace tl::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

ModelRequest request_of(const TraceOptions& options) {
  ModelRequest request;
  request.path = options.model;
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
    const auto bound = bind_inputs(session_->info().signature, plan_.given);
    execute(bound);
    fill_facts(bound);
    set_phase(slate_, "postprocessing");
    StepWatch watch(options_.steps, context_.out, context_.err);
    trace_ = run_pipeline(std::move(capture_), watch.observers(), {.stop_after = options_.steps.stop_after});
    watch.finish(trace_);
    if (!trace_.finished) return 0;
    check_finite(trace_);
    write();
    report();
    return exit_code();
  }

 private:
  void load() {
    set_phase(slate_, "loading the model");
    const auto start = Clock::now();
    session_ = engine_.load(request_of(options_));
    load_seconds_ = seconds_since(start);
  }

  void execute(const BoundInputs& bound) {
    set_phase(slate_, "running the model");
    RunRequest request;
    request.arguments = bound.arguments;
    request.given = bound.given;
    request.seed = options_.seed;
    request.grad = options_.grad;
    request.keep_payloads = plan_.keep_payloads;
    request.witness = options_.witness;
    Progress progress(context_, slate_);
    request.progress = [&](std::size_t events) { progress(events); };
    const InterruptScope scope;
    try {
      result_ = session_->run(request, capture_);
    } catch (const Interrupted& stop) {
      stopped_by_ = stop.signal;
      by_time_limit_ = stop.by_time_limit;
      note_interrupt(stop.what());
    }
    progress.finish();
    slate_.events = capture_.events.size();
  }

  /// What an engine that let the exception through has not noted itself.
  void note_interrupt(const char* reason) {
    auto& outcome = capture_.run.outcome;
    outcome.status = "interrupted";
    outcome.origin = "interrupt";
    if (outcome.reason.empty()) outcome.reason = reason;
    if (outcome.n_ops_committed == 0) outcome.n_ops_committed = static_cast<std::int64_t>(capture_.events.size());
  }

  void fill_facts(const BoundInputs& bound) {
    const auto& info = session_->info();
    auto& run = capture_.run;
    run.model_file = plan_.file.path.filename().string();
    run.model_kind = info.kind;
    run.model_bytes = static_cast<std::int64_t>(plan_.file.size);
    run.model_digest = digest_hex(MappedFile::open(plan_.file.path)->bytes());
    run.model_class = info.class_name;
    run.engine = engine_.version();
    run.method = options_.method;
    run.mode = info.mode;
    run.device = options_.device;
    run.dtype = info.dtype;
    run.save = plan_.keep_payloads ? "all" : "none";
    if (options_.threads > 0) run.threads = options_.threads;
    run.seed = options_.seed;
    run.grad = options_.grad;
    run.inputs = input_records(info.signature, bound);
    run.outputs = output_records(result_.outputs);
    run.load_seconds = load_seconds_;
    run.forward_seconds = result_.forward_seconds;
  }

  void write() {
    set_phase(slate_, "writing the recording");
    WriteOptions write_options;
    write_options.level = plan_.level;
    write_options.force = options_.force;
    written_ = write_tlspec(trace_, plan_.output, write_options);
    if (!options_.save_outputs.empty() && trace_.run.outcome.complete())
      save_outputs(result_.outputs, options_.save_outputs);
  }

  void report() {
    const Verification verification{std::nullopt, "not validated"};
    if (context_.format == Format::kJson) {
      auto body = first_screen_json(trace_, verification);
      body["output"] = plan_.output.string();
      body["output_bytes"] = written_.bytes;
      if (const auto code = error_code()) {
        body["error"] = {{"code", to_string(*code)}, {"message", error_message()}, {"exit", exit_code()}};
      }
      context_.out.raw(json_envelope("trace", trace_.run.outcome.complete(), body));
    } else {
      print_first_screen(context_.out, trace_, verification);
    }
    context_.out.flush();
    print_wrote();
    if (const auto code = error_code()) {
      context_.err.line(Style::kError, "error[" + std::string(to_string(*code)) + "]: ", error_message());
      context_.err.line(Style::kBold, "note: ", "the recording up to there is kept in " + plan_.output.string());
    }
  }

  void print_wrote() {
    if (context_.quiet()) return;
    const auto output = plan_.output.string();
    context_.err.line("wrote   " + output + "   " + format_bytes(written_.bytes));
    if (!options_.save_outputs.empty() && trace_.run.outcome.complete())
      context_.err.line("wrote   " + options_.save_outputs);
    auto key = std::string();
    for (const auto& row : summarise(trace_).rows) {
      if (row.module.valid()) key = row.name;
    }
    context_.err.line("next    torchlens show " + shell_quoted(output) +
                      (key.empty() ? " --layers" : " " + shell_quoted(key)));
  }

  /// nullopt for a complete run, and for one that the supervisor reports.
  std::optional<ErrorCode> error_code() const {
    const auto& outcome = trace_.run.outcome;
    if (outcome.complete() || by_time_limit_) return std::nullopt;
    if (outcome.status != "interrupted") return ErrorCode::kModelRaised;
    return exit_code_of_signal(stopped_by_) == static_cast<int>(ExitCode::kInterrupted) ? ErrorCode::kInterrupted
                                                                                        : ErrorCode::kTerminated;
  }

  std::string error_message() const {
    const auto& outcome = trace_.run.outcome;
    auto text = trace_.run.model_file + ": ";
    if (outcome.status == "interrupted") {
      return text + outcome.reason + " after " + counted(outcome.n_ops_committed, "operation");
    }
    text += outcome.error_type.empty() ? "the model raised" : outcome.error_type;
    if (!outcome.boundary_label.empty()) text += " at " + outcome.boundary_label;
    if (outcome.n_ops_committed > 0) text += " after " + counted(outcome.n_ops_committed, "operation");
    return text + ": " + outcome.reason;
  }

  int exit_code() const {
    if (by_time_limit_) return static_cast<int>(ExitCode::kTerminated);  // the supervisor makes 124 of it
    const auto code = error_code();
    return code ? static_cast<int>(exit_code_of(*code)) : 0;
  }

  const TracePlan& plan_;
  const TraceOptions& options_;
  Engine& engine_;
  Context& context_;
  CrashSlate& slate_;
  std::unique_ptr<Session> session_;
  Capture capture_;
  RunResult result_;
  Trace trace_;
  WriteReport written_;
  double load_seconds_ = 0;
  int stopped_by_ = 0;
  bool by_time_limit_ = false;
};

}  // namespace

int run_trace(const TracePlan& plan, Engine& engine, Context& context, CrashSlate& slate) {
  return TraceRun(plan, engine, context, slate).run();
}

}  // namespace tl::cli

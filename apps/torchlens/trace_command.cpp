#include <CLI/CLI.hpp>
#include <memory>

#include "cli.h"
#include "core/atomic_dir.h"
#include "engine/registry.h"
#include "engine/supervisor.h"
#include "option_groups.h"
#include "postprocess/pipeline.h"
#include "run_trace.h"
#include "sparse_report.h"
#include "step_watch.h"
#include "table.h"
#include "trace_plan.h"

namespace tl::cli {
namespace {

void add_input_options(CLI::App& app, TraceOptions& options) {
  const std::string group = "Inputs";
  add_repeated(app, "-i,--input", options.inputs,
               "a file bound by name, or NAME=FILE[:KEY], NAME=3, NAME=[1,2], NAME=none, NAME=true, NAME=\"text\"; "
               "NAME may be a path (batch.mask, states.0); repeatable",
               "INPUT", group);
  add_repeated(app, "--random", options.randoms, "a random tensor: x:f32[2,3], ids:i64[2,3]<100; repeatable",
               "NAME:TYPE[SIZES]", group);
}

void add_model_options(CLI::App& app, TraceOptions& options) {
  const std::string group = "Model";
  app.add_option("--model", options.program, "the program to run, of a .pt2 that holds several")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--method", options.method, "the method to run")->type_name("NAME")->group(group);
  app.add_flag("--train", options.train, "switch a scripted model to training")->group(group);
  app.add_flag("--eval", options.eval, "switch a scripted model to evaluation")->group(group);
  app.add_option("--device", options.device, "where to run")
      ->check(CLI::IsMember({"cpu"}))
      ->type_name("DEVICE")
      ->group(group);
  app.add_option("--threads", options.threads, "threads of LibTorch; default: its own choice")
      ->check(CLI::Range(1, 4096))
      ->type_name("N")
      ->group(group);
  app.add_option("--seed", options.seed, "seed of the run and of --random; default 0")->type_name("N")->group(group);
  app.add_flag("--grad", options.grad, "run with gradients on")->group(group);
  add_extension_options(app, options.libraries, options.allowed_ops, group);
}

void add_recording_options(CLI::App& app, TraceOptions& options) {
  const std::string group = "Output";
  add_output_options(app, options.output, options.force,
                     {"the recording; default <model>.tlspec here", "DIR", "an existing recording", group});
  app.add_option("--level", options.level, "portable (records and activations) or audit (records)")
      ->type_name("LEVEL")
      ->group(group);
  app.add_flag("--sparse", options.sparse, "keep events and activations only; `torchlens finish` makes the graph later")
      ->group(group);
  app.add_option("--save-outputs", options.save_outputs, "also write what the model returned")
      ->type_name("FILE.safetensors")
      ->group(group);
}

void add_value_options(CLI::App& app, TraceOptions& options) {
  const std::string group = "Values";
  app.add_option("--save", options.save,
                 "which activations to keep: auto (default: all while the budget holds, then samples and outputs of "
                 "modules), all, none, sample or sample=N (elements at N fixed positions, default 64), or a selector: "
                 "func(\"relu\"), module(\"encoder.*\")")
      ->type_name("WHICH")
      ->group(group);
  app.add_option("--save-budget", options.save_budget,
                 "memory that kept activations may take (8GB); default: half of what is free")
      ->type_name("SIZE")
      ->group(group);
  app.add_flag("--stream", options.stream, "write activations while the model runs; at most 256 MB of them wait")
      ->group(group);
  app.add_flag(
         "--stats{usual}", options.stats,
         "statistics of every value, kept or not: --stats, or --stats=LIST of abs_mean, sum, min, max, mean, std, "
         "l2, nan, inf, zeros, denormals, argmin, argmax, histogram, all")
      ->group(group);
  app.add_flag("--dry-run", options.dry_run, "run, print what each choice of --save would take, write nothing")
      ->group(group);
}

void add_end_options(CLI::App& app, TraceOptions& options) {
  const std::string group = "Where to stop";
  app.add_option("--stop-after", options.stop_after,
                 "halt after the first operation that the selector takes, or when the module it names returns")
      ->type_name("SELECTOR")
      ->group(group);
  app.add_flag("--raise-on-nan", options.raise_on_nan,
               "stop at the first operation that makes NaN or an infinity (exit 1); masks of -inf pass")
      ->group(group);
}

void add_limit_options(CLI::App& app, TraceOptions& options) {
  const std::string group = "Limits and checks";
  app.add_option("--timeout", options.timeout, "stop after so long (30, 2m), keeping what was recorded")
      ->type_name("TIME")
      ->group(group);
  app.add_option("--max-memory", options.max_memory, "stop when the run takes more memory (8GB)")
      ->type_name("SIZE")
      ->group(group);
  app.add_flag("--echo", options.echo, "tell every operation on stderr as it runs")->group(group);
  app.add_flag("--witness", options.witness, "also count the calls that LibTorch's dispatcher sees")->group(group);
}

void add_step_options(CLI::App& app, StepOptions& options) {
  const std::string group = "Debugging the steps of postprocess";
  app.add_flag("--list-steps", options.list, "list the steps and stop")->group(group);
  add_repeated(app, "--print-after", options.print_after, "print the trace after a step, or after all; repeatable",
               "STEP", group);
  app.add_flag("--print-changed", options.print_changed, "print the trace after every step that changed it")
      ->group(group);
  app.add_option("--dump-steps", options.dump_directory, "write the trace after every step")
      ->type_name("DIR")
      ->group(group);
  app.add_flag("--verify-each", options.verify_each, "check the invariants after every step")->group(group);
  app.add_flag("--time-steps", options.time, "print what each step took")->group(group);
  app.add_option("--stop-after-step", options.stop_after,
                 "print the trace after this step and stop; nothing is written")
      ->type_name("STEP")
      ->group(group);
}

void list_steps(Context& context) {
  Table table({{"step", 0, false}, {"does", 0, false}});
  for (const auto& step : pipeline_steps()) table.add({std::string(step.name), std::string(step.about)});
  table.print(context.out, "");
}

/// All of it runs in the child, so that not even a file that breaks a reader takes the supervisor with it.
int run_child(const TraceOptions& options, Context& context, CrashSlate& slate) {
  return guarded(context, [&] {
    set_phase(slate, "reading the files");
    const auto plan = plan_trace(options);
    set_phase(slate, "opening the engine");
    const auto engine = open_engine(executable_directory());
    engine->set_crash_slate(&slate);
    return run_trace(plan, *engine, context, slate);
  });
}

int trace(const TraceOptions& options, Context& context) {
  if (options.steps.list) {
    list_steps(context);
    return 0;
  }
  check_step_options(options.steps);
  check_summary_options(options.summary);
  check_sparse_options(options);
  SupervisorOptions limits;
  if (!options.timeout.empty()) limits.timeout_seconds = parse_seconds("--timeout", options.timeout);
  if (!options.max_memory.empty()) limits.max_memory_bytes = parse_bytes("--max-memory", options.max_memory);
  limits.tidy = [&](pid_t child) {
    remove_temporaries_of(output_path(options), child);
    if (!options.save_outputs.empty()) remove_temporaries_of(options.save_outputs, child);
  };
  return supervise(limits, [&](CrashSlate& slate) { return run_child(options, context, slate); });
}

}  // namespace

Runner add_trace_command(CLI::App& app) {
  auto options = std::make_shared<TraceOptions>();
  app.add_option("MODEL", options->model, "a TorchScript file or an exported program (.pt2)")->type_name("");
  add_input_options(app, *options);
  add_recording_options(app, *options);
  add_value_options(app, *options);
  add_model_options(app, *options);
  add_end_options(app, *options);
  add_limit_options(app, *options);
  add_summary_options(app, options->summary);
  add_step_options(app, options->steps);
  return [options](Context& context) { return trace(*options, context); };
}

}  // namespace tl::cli

#include "step_watch.h"

#include "core/text.h"
#include "postprocess/pipeline.h"
#include "trace/text.h"

namespace tl::cli {

void check_step_options(const StepOptions& options) {
  for (const auto& name : options.print_after) {
    if (name != "all") find_step(name);
  }
  if (!options.stop_after.empty()) find_step(options.stop_after);
}

StepWatch::StepWatch(const StepOptions& options, Output& out, Output& err) : options_(options), out_(out), err_(err) {
  const auto sink = [this](std::string_view text) { out_.lines(text); };
  for (const auto& name : options.print_after) add(std::make_unique<StepPrinter>(name, false, sink));
  if (options.print_changed) add(std::make_unique<StepPrinter>("all", true, sink));
  if (!options.dump_directory.empty()) add(std::make_unique<StepDumper>(options.dump_directory));
  if (options.verify_each) add(std::make_unique<StepVerifier>());
#ifndef NDEBUG
  add(std::make_unique<StepContract>());
#endif
  if (options.time) observers_.push_back(&timer_);
}

void StepWatch::add(std::unique_ptr<StepObserver> observer) {
  observers_.push_back(observer.get());
  owned_.push_back(std::move(observer));
}

void StepWatch::finish(const Trace& trace) {
  if (options_.time) {
    for (const auto& row : timer_.rows()) err_.line(pad_right(row.step, 24) + format_duration(row.seconds));
    err_.line(pad_right("all steps", 24) + format_duration(timer_.total_seconds()));
  }
  if (!options_.stop_after.empty() && !trace.finished) out_.lines(to_text(trace));
}

}  // namespace tl::cli

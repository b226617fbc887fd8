#include "trace_plan.h"

#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/error.h"
#include "core/output_file.h"
#include "engine/input_files.h"
#include "text_format.h"

namespace tl::cli {
namespace {

namespace fs = std::filesystem;

void check_target(const fs::path& target, bool force, const std::string& retry) {
  std::error_code error;
  if (!force && fs::exists(fs::symlink_status(target, error))) {
    throw Error(ErrorCode::kOutputExists, target.string() + ": exists already", retry);
  }
  const auto parent = target.has_parent_path() ? target.parent_path() : fs::path(".");
  if (!fs::is_directory(parent, error)) {
    throw Error(ErrorCode::kOutputFailed, target.string() + ": there is no directory " + parent.string());
  }
  if (access(parent.c_str(), W_OK | X_OK) != 0) throw_output_failed(target, errno);
}

/// The command once more, with what makes it go through.
std::string retry_line(const TraceOptions& options) {
  std::string line = "torchlens trace " + shell_quoted(options.model);
  for (const auto& input : options.inputs) line += " --input " + shell_quoted(input);
  for (const auto& random : options.randoms) line += " --random " + shell_quoted(random);
  if (!options.output.empty()) line += " -o " + shell_quoted(options.output);
  return line + " --force";
}

void check_level(TracePlan& plan) {
  const auto& options = plan.options;
  const auto level = level_from_name(options.level);
  if (!level) {
    throw Error(ErrorCode::kUsage, "--level " + options.level + ": not a level this build writes",
                "use portable or audit");
  }
  plan.level = *level;
  plan.save = plan_save(options, plan.level);
  check_stop_after(options.stop_after);
}

void check_model(TracePlan& plan) {
  plan.file = inspect_model_file(plan.options.model);
  if (plan.file.kind == ModelKind::kTlspec) {
    throw Error(ErrorCode::kNotAModel, plan.options.model + ": a recording, not a model",
                "torchlens show " + shell_quoted(plan.options.model));
  }
  if (auto refusal = refusal_for(plan.file)) throw std::move(*refusal);
  if (plan.options.train && plan.options.eval) throw Error(ErrorCode::kUsage, "--train and --eval exclude each other");
}

}  // namespace

fs::path default_output(const fs::path& model) {
  constexpr std::array<std::string_view, 8> kSuffixes = {".script.pt",   ".trace.pt", ".ts.pt", ".export.pt2",
                                                         ".torchscript", ".pt2",      ".pth",   ".pt"};
  auto stem = model.filename().string();
  if (stem.empty()) stem = "model";
  for (const auto suffix : kSuffixes) {
    if (stem.size() > suffix.size() && stem.ends_with(suffix)) {
      stem.erase(stem.size() - suffix.size());
      break;
    }
  }
  return stem + ".tlspec";
}

fs::path output_path(const TraceOptions& options) {
  auto output = options.output.empty() ? default_output(options.model) : fs::path(options.output);
  while (!output.has_filename() && output.has_parent_path() && output != output.root_path()) {
    output = output.parent_path();  // `-o run.tlspec/`
  }
  return output;
}

TracePlan plan_trace(const TraceOptions& options) {
  TracePlan plan;
  plan.options = options;
  if (options.model.empty()) throw Error(ErrorCode::kUsage, "no model given", "torchlens trace MODEL --input FILE");
  check_level(plan);
  check_model(plan);
  plan.output = output_path(options);
  if (options.steps.stop_after.empty() && !options.dry_run)
    check_target(plan.output, options.force, retry_line(options));
  if (!options.save_outputs.empty()) check_target(options.save_outputs, options.force, retry_line(options));
  for (const auto& library : options.libraries) {
    if (access(library.c_str(), R_OK) != 0 && library.find('/') != std::string::npos) {
      throw Error(ErrorCode::kLibraryNotLoaded, "--load-library " + library + ": the file cannot be read");
    }
  }
  plan.given = read_input_options(options.inputs);
  if (!options.randoms.empty()) {
    plan.given.push_back(make_random_inputs(options.randoms, static_cast<std::uint64_t>(options.seed)));
  }
  return plan;
}

}  // namespace tl::cli

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "analysis/finite_check.h"
#include "command.h"
#include "core/error.h"
#include "core/text.h"
#include "json_output.h"
#include "option_groups.h"
#include "postprocess/pipeline.h"
#include "screen.h"
#include "summary_options.h"
#include "text_format.h"
#include "tlspec/reader.h"
#include "tlspec/writer.h"

namespace tl::cli {
namespace {

namespace fs = std::filesystem;

struct FinishOptions {
  std::string path;
  std::string output;
  bool force = false;
  SummaryScreenOptions summary;
};

/// `run.tlspec/` names run.tlspec.
fs::path without_slash(fs::path path) {
  while (!path.has_filename() && path.has_parent_path() && path != path.root_path()) path = path.parent_path();
  return path;
}

void report(const Trace& trace, const fs::path& target, const WriteReport& written, const SummaryScreenOptions& summary,
            Context& context) {
  const Verification verification{std::nullopt, "not validated"};
  if (context.format == Format::kJson) {
    auto body = first_screen_json(trace, verification, summary);
    body["output"] = target.string();
    body["output_bytes"] = written.bytes;
    context.out.raw(json_envelope("finish", true, body));
  } else {
    print_first_screen(context.out, trace, verification, summary);
  }
  context.out.flush();
  if (context.quiet()) return;
  context.err.line("wrote   " + target.string() + "   " + format_bytes(written.bytes));
  context.err.line("next    torchlens show " + shell_quoted(target.string()) + " --layers");
}

int finish(const FinishOptions& options, Context& context) {
  if (options.path.empty()) throw Error(ErrorCode::kUsage, "nothing to finish", "torchlens finish DIR.tlspec");
  check_summary_options(options.summary);
  const auto source = without_slash(options.path);
  const auto target = options.output.empty() ? source : without_slash(options.output);
  auto file = read_sparse(source);
  auto trace = finish_sparse(std::move(file.recording));
  check_finite(trace);
  WriteOptions write_options;
  write_options.level = file.level;
  write_options.force = options.force || target == source;
  report(trace, target, write_tlspec(trace, target, write_options), options.summary, context);
  return 0;
}

}  // namespace

Runner add_finish_command(CLI::App& app) {
  auto options = std::make_shared<FinishOptions>();
  app.add_option("DIR", options->path, "a recording that `trace --sparse` made")->type_name("");
  add_output_options(
      app, options->output, options->force,
      {"write the trace there; default: in place of the sparse recording", "DIR", "what is there", "Output"});
  add_summary_options(app, options->summary);
  return [options](Context& context) { return finish(*options, context); };
}

}  // namespace tl::cli

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "analysis/chrome_trace.h"
#include "archive/model_kind.h"
#include "command.h"
#include "core/error.h"
#include "dump_screen.h"
#include "engine/known_operators.h"
#include "engine/registry.h"
#include "json_output.h"
#include "model_screen.h"
#include "record.h"
#include "screen.h"
#include "select/lookup.h"
#include "text_format.h"
#include "tlspec/foreign.h"
#include "tlspec/manifest.h"
#include "tlspec/reader.h"

namespace tl::cli {
namespace {

struct ShowOptions {
  std::string path;
  std::string key;
  bool layers = false;
  bool everything = false;
  SummaryScreenOptions summary;
};

/// A part of a recording as JSON; that the recording is partial stands in each.
void print_part(const Trace& trace, nlohmann::ordered_json body, Context& context) {
  if (!trace.run.outcome.complete()) body["outcome"] = outcome_json(trace.run.outcome);
  context.out.raw(json_envelope("show", true, body));
}

/// Leaves out what differs from run to run.
void drop_times(nlohmann::ordered_json& record) {
  if (record.is_object()) {
    std::vector<std::string> times;
    for (const auto& [key, value] : record.items()) {
      if (key.ends_with("duration")) times.push_back(key);
    }
    for (const auto& key : times) record.erase(key);
  }
  if (record.is_structured()) {
    for (auto& value : record) drop_times(value);
  }
}

void show_record(const Trace& trace, const ShowOptions& options, Context& context) {
  auto record = record_json(trace, look_up(trace, options.key).value());
  if (options.summary.stable) drop_times(record);
  if (context.format == Format::kJson) {
    print_part(trace, {{"record", record}}, context);
  } else {
    print_record(context.out, record);
    print_partial(context.out, trace.run.outcome);
  }
}

void show_layers(const Trace& trace, bool stable, Context& context) {
  if (context.format == Format::kJson) {
    print_part(trace, {{"layers", layer_table_json(trace, stable)}}, context);
  } else {
    print_layer_table(context.out, trace, stable);
    print_partial(context.out, trace.run.outcome);
  }
}

void check_chrome(const ShowOptions& options, bool is_trace) {
  if (is_trace && options.key.empty() && !options.layers) return;
  throw Error(ErrorCode::kUsage, "--format chrome writes the run of a recording, nothing else",
              "torchlens show TRACE --format chrome > run.json");
}

/// What shapes the summary has no meaning for a record or for the table of layers.
void check_summary_wanted(const ShowOptions& options) {
  if (options.key.empty() && !options.layers) return;
  const auto& summary = options.summary;
  const SummaryScreenOptions defaults;
  const char* given = summary.depth != defaults.depth       ? "--depth"
                      : summary.level != defaults.level     ? "--level"
                      : summary.view != defaults.view       ? "--view"
                      : summary.columns != defaults.columns ? "--columns"
                                                            : nullptr;
  if (given == nullptr) return;
  throw Error(ErrorCode::kUsage,
              std::string(given) + " shapes the summary, which " + (options.layers ? "--layers" : "KEY") + " replaces",
              "torchlens show " + shell_quoted(options.path) + " " + given + " …");
}

void show_trace(const ShowOptions& options, Context& context) {
  check_summary_wanted(options);
  const auto manifest = read_manifest(options.path);
  const auto trace = read_tlspec(options.path, {.payloads = !options.key.empty()});
  if (context.format == Format::kChrome) {
    return write_chrome_trace(trace, options.summary.stable, [&](std::string_view text) { context.out.raw(text); });
  }
  if (!options.key.empty()) return show_record(trace, options, context);
  if (options.layers) return show_layers(trace, options.summary.stable, context);
  const Verification verification{manifest.capture_verified, manifest.capture_verification_reason};
  if (context.format == Format::kJson) {
    auto body = first_screen_json(trace, verification, options.summary);
    body["level"] = to_string(manifest.level);
    context.out.raw(json_envelope("show", true, body));
  } else {
    print_first_screen(context.out, trace, verification, options.summary);
  }
}

/// The command that runs the model, where nothing speaks against it. What reaches outside the process is no suggestion.
void suggest_trace(Context& context, const std::string& path, const nlohmann::ordered_json& screen) {
  const auto is_empty = [&](const char* key) { return !screen.contains(key) || screen.at(key).empty(); };
  if (screen.contains("refused") || screen.contains("tree_error") || !screen.contains("unsafe")) return;
  if (!is_empty("unsafe")) return;
  std::string command = "next        torchlens trace " + shell_quoted(path) + " --input FILE";
  if (screen.contains("methods")) {  // exported programs have none
    if (is_empty("methods")) return;
    if (screen.at("signature").is_null())
      command += " --method " + shell_quoted(screen.at("methods").at(0).at("name").get<std::string>());
  }
  if (!is_empty("missing")) command += " --load-library FILE";
  context.err.line(command);
}

void show_model(const ModelFileInfo& info, const ShowOptions& options, Context& context) {
  if (!options.key.empty() || options.layers) {
    throw Error(ErrorCode::kNotATrace, options.path + ": not a recording, so it has no layers to show",
                "torchlens trace records one from a model");
  }
  const auto known = read_known_operators(executable_directory());
  const auto screen = model_screen(info, known ? &*known : nullptr);
  if (context.format == Format::kJson) {
    context.out.raw(json_envelope("show", true, screen));
  } else {
    print_model_screen(context.out, screen, options.everything);
    context.out.flush();
    if (!context.quiet()) suggest_trace(context, options.path, screen);
  }
}

/// A recording that `torchlens recorder` or another tool made.
void show_dump(const ShowOptions& options, Context& context) {
  if (options.layers) {
    throw Error(ErrorCode::kUsage, options.path + ": has no layers, as it was not made by torchlens trace",
                "torchlens show " + shell_quoted(options.path));
  }
  const auto dump = read_reference(options.path);
  const bool json = context.format == Format::kJson;
  if (options.key.empty()) {
    if (json) return context.out.raw(json_envelope("show", true, dump_screen_json(dump)));
    return print_dump_screen(context.out, options.path, dump);
  }
  const auto entries = find_dump_entries(dump, options.key);
  if (json) return context.out.raw(json_envelope("show", true, dump_entries_json(entries)));
  print_dump_entries(context.out, entries);
}

/// True for what read_reference reads and what is neither a recording of `torchlens trace` nor a file of tensors, which
/// the screen of models tells more about.
bool is_dump(const ModelFileInfo& info) {
  const auto extension = info.path.extension();
  const bool may_be = info.kind == ModelKind::kTlspec || info.kind == ModelKind::kDirectory || extension == ".json" ||
                      extension == ".jsonl";
  if (!may_be) return false;
  const auto format = reference_format(info.path);
  return format != ReferenceFormat::kNone && format != ReferenceFormat::kTrace;
}

int show(const ShowOptions& options, Context& context) {
  if (options.path.empty()) throw Error(ErrorCode::kUsage, "nothing to show", "torchlens show TRACE|MODEL [KEY]");
  check_summary_options(options.summary);
  const auto info = inspect_model_file(options.path);
  const bool dump = is_dump(info);
  const bool is_trace = !dump && (info.kind == ModelKind::kTlspec || info.kind == ModelKind::kDirectory);
  if (context.format == Format::kChrome) check_chrome(options, is_trace);
  if (dump) {
    show_dump(options, context);
  } else if (is_trace) {
    show_trace(options, context);
  } else {
    show_model(info, options, context);
  }
  return 0;
}

}  // namespace

Runner add_show_command(CLI::App& app) {
  auto options = std::make_shared<ShowOptions>();
  app.add_option("FILE", options->path, "a recording (.tlspec) or a model file")->type_name("");
  const auto* key =
      app.add_option(
             "KEY", options->key,
             "a module (layer1.0), layer (relu_1_2), op (relu_1_2:3), module call (block:2), parameter or buffer")
          ->type_name("");
  app.add_flag("--layers", options->layers, "the table of all layers")->group("Show");
  app.add_flag("--all", options->everything, "every row and name: nothing folded, nothing left out")->group("Show");
  add_tree_options(app, options->summary);
  add_summary_options(app, options->summary);
  return [options, key](Context& context) {
    if (key->count() > 0 && options->key.empty()) {
      throw Error(ErrorCode::kUsage, "KEY is empty", "torchlens show TRACE shows the summary");
    }
    options->summary.all_rows = options->everything;
    return show(*options, context);
  };
}

}  // namespace tl::cli

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "core/atomic_dir.h"
#include "core/error.h"
#include "core/output_file.h"
#include "core/text.h"
#include "embedded_text.h"
#include "json_output.h"
#include "option_groups.h"

namespace tl::cli {
namespace {

namespace fs = std::filesystem;

/// What may be printed, and under which name it belongs beside a program.
struct Recorder {
  std::string_view name;
  std::string_view file;
  std::string_view summary;
};
constexpr std::array kRecorders = {
    Recorder{"python", "torchlens_recorder.py", "records an eager PyTorch model; needs torch"},
    Recorder{"cpp", "torchlens_dump.h", "records named tensors of any C++17 runtime; needs nothing"},
    Recorder{"reader", "torchlens_reader.py", "reads recordings in Python; needs numpy"},
};

struct Options {
  std::string name;
  std::string output;
  bool force = false;
};

const Recorder& find_recorder(const std::string& name) {
  std::vector<std::string> names;
  std::string known;
  for (const auto& recorder : kRecorders) {
    if (recorder.name == name) return recorder;
    names.emplace_back(recorder.name);
    known += (known.empty() ? "" : ", ") + names.back();
  }
  const auto close = did_you_mean(name, names, 1);
  throw Error(ErrorCode::kUsage, name.empty() ? "no recorder named" : "no recorder '" + name + "'",
              close.empty() ? "type torchlens recorder python, cpp or reader" : "did you mean " + close.front() + "?",
              "there are " + known);
}

fs::path target_of(const Options& options, const Recorder& recorder) {
  const fs::path path = options.output;
  std::error_code error;
  return fs::is_directory(path, error) ? path / recorder.file : path;
}

/// Removes a file that has not been moved elsewhere.
struct TemporaryFile {
  fs::path path;
  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

void write_in_place(const fs::path& target, std::string_view text, bool force) {
  std::error_code error;
  if (!force && fs::exists(fs::symlink_status(target, error))) {
    throw Error(ErrorCode::kOutputExists, target.string() + ": exists", "pass --force to replace it");
  }
  const TemporaryFile temporary{temporary_sibling(target)};
  write_file(temporary.path, text);
  fs::rename(temporary.path, target, error);
  if (error) throw_output_failed(target, error.value());
}

int print(const Recorder& recorder, const Options& options, Context& context) {
  const auto text = embedded_text(recorder.name);
  TL_CHECK(!text.empty(), "every recorder is embedded");
  const bool to_stdout = options.output.empty() || options.output == "-";
  if (!to_stdout) {
    const auto target = target_of(options, recorder);
    write_in_place(target, text, options.force);
    if (!context.quiet()) context.err.line("wrote " + target.string());
  }
  if (context.format == Format::kJson) {
    nlohmann::ordered_json body;
    body["recorder"] = recorder.name;
    body["file"] = recorder.file;
    body["bytes"] = text.size();
    if (to_stdout) body["text"] = text;
    context.out.raw(json_envelope("recorder", true, body));
  } else if (to_stdout) {
    context.out.raw(text);
  }
  return 0;
}

}  // namespace

Runner add_recorder_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("NAME", options->name, "python, cpp or reader")->type_name("");
  add_output_options(
      app, options->output, options->force,
      {"write there, not to stdout; a directory takes the file's own name", "PATH", "an existing file", "Recorder"});
  return [options](Context& context) { return print(find_recorder(options->name), *options, context); };
}

}  // namespace tl::cli

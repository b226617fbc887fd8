#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "output.h"

namespace CLI {
class App;
}

namespace tl::cli {

/// How a result is written. Every command that has JSON has text and json; the others where its row names them.
enum class Format : std::uint8_t { kText, kJson, kJsonl, kCsv, kMarkdown, kChrome };

/// What every command gets beside its own options.
struct Context {
  Output out;  ///< results
  Output err;  ///< everything else
  Format format = Format::kText;
  int verbosity = 0;         ///< -v counts up, -q down
  std::string_view command;  ///< name of the command that runs; heads the JSON envelope

  bool quiet() const { return verbosity < 0; }
};

/// Runs a command whose options are parsed and returns its exit code.
using Runner = std::function<int(Context&)>;

/// One command: a row of commands().
struct Command {
  std::string_view name;
  std::string_view summary;         ///< one line for the list of commands
  std::string_view examples;        ///< lines `command   what it does`, shown below the options
  bool has_json = false;            ///< takes --json and --format
  std::string_view more_formats{};  ///< of --format, beside text and json, by comma: csv, md, jsonl, chrome
  Runner (*add_to)(CLI::App& app);  ///< adds its options to `app`; the runner owns what they are parsed into
};

/// All commands, in the order of the help.
std::span<const Command> commands();

Runner add_trace_command(CLI::App& app);
Runner add_show_command(CLI::App& app);
Runner add_query_command(CLI::App& app);
Runner add_recorder_command(CLI::App& app);
Runner add_diff_command(CLI::App& app);
Runner add_finish_command(CLI::App& app);
Runner add_doctor_command(CLI::App& app);
Runner add_version_command(CLI::App& app);

}  // namespace tl::cli

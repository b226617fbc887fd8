#include "cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <new>

#include "core/build_id.h"
#include "core/log.h"
#include "core/text.h"
#include "json_output.h"

namespace tl::cli {
namespace {

constexpr std::array kCommands = {
    Command{.name = "trace",
            .summary = "run a model op by op and write a recording",
            .examples = "torchlens trace model.pt --input x.safetensors\n"
                        "torchlens trace model.pt --random 'x:f32[1,3,224,224]' -o run.tlspec\n"
                        "torchlens trace model.pt --input batch.npz --input flag=true --save none\n"
                        "torchlens trace model.pt --input x=a.npy --input 'sizes=[2,3]' --json",
            .has_json = true,
            .add_to = add_trace_command},
    Command{.name = "show",
            .summary = "look at a recording, one of its records, or a model file",
            .examples = "torchlens show run.tlspec\n"
                        "torchlens show run.tlspec --level module --view compute\n"
                        "torchlens show run.tlspec --layers\n"
                        "torchlens show run.tlspec layer1.0.conv1\n"
                        "torchlens show run.tlspec relu_1_2:3 --json\n"
                        "torchlens show run.tlspec --format chrome > run.json\n"
                        "torchlens show model.pt",
            .has_json = true,
            .more_formats = "chrome",
            .add_to = add_show_command},
    Command{.name = "query",
            .summary = "list rows of any table of a recording that a selector picks",
            .examples =
                "torchlens query run.tlspec 'func(\"relu\") & in_module(\"encoder\")'\n"
                "torchlens query run.tlspec 'where(numel > 1e6)' --columns label,shape,numel --sort numel:desc\n"
                "torchlens query run.tlspec params.trainable --table params --format csv\n"
                "torchlens query run.tlspec --table conditionals --json\n"
                "torchlens query --table layers --list-columns",
            .has_json = true,
            .more_formats = "jsonl,csv,md",
            .add_to = add_query_command},
    Command{.name = "recorder",
            .summary = "print a one-file recorder for the reference side of a comparison, or a reader",
            .examples = "torchlens recorder python > torchlens_recorder.py\n"
                        "torchlens recorder cpp -o include/\n"
                        "torchlens recorder reader > torchlens_reader.py",
            .has_json = true,
            .add_to = add_recorder_command},
    Command{.name = "diff",
            .summary = "compare two recordings or models: the first divergent layer, its cause, a verdict",
            .examples = "torchlens diff reference.tlspec subject.tlspec\n"
                        "torchlens diff model.pt model.pt2 --input x.safetensors\n"
                        "torchlens diff a.tlspec b.tlspec --static\n"
                        "torchlens diff model.pt int8.pt --input 'calib/*.safetensors' --sort worst",
            .has_json = false,
            .add_to = add_diff_command},
    Command{.name = "finish",
            .summary = "make a sparse recording (trace --sparse) a full one",
            .examples = "torchlens finish run.tlspec\n"
                        "torchlens finish run.tlspec -o full.tlspec",
            .has_json = true,
            .add_to = add_finish_command},
    Command{.name = "doctor",
            .summary = "say what was found of the installation and what was not",
            .examples = "torchlens doctor\ntorchlens doctor --json",
            .has_json = true,
            .add_to = add_doctor_command},
    Command{.name = "version",
            .summary = "print the version and the build id",
            .examples = "torchlens version",
            .has_json = true,
            .add_to = add_version_command},
};

constexpr std::string_view kExitCodes =
    "Exit codes:\n"
    "    0  good\n"
    "    1  a negative verdict\n"
    "    2  usage: options, keys, inputs that do not fit the model, an output that exists\n"
    "    3  a file is missing, damaged or no model, or the output cannot be written\n"
    "    4  refused: well-formed but unsupported or unsafe, or over a budget\n"
    "    5  the model raised while running; the partial recording is kept\n"
    "   70  a defect of torchlens, or an engine that died by a signal\n"
    "  124  time limit   130  Ctrl-C   143  SIGTERM   141  closed pipe\n";

/// Verbs of the Python package's command of the same name.
struct ForeignVerb {
  std::string_view verb;
  std::string_view instead;
};
constexpr std::array kForeignVerbs = {
    ForeignVerb{"info", "torchlens show FILE"},         ForeignVerb{"ls", "torchlens show TRACE --layers"},
    ForeignVerb{"overview", "torchlens show TRACE"},    ForeignVerb{"dump", "torchlens show TRACE KEY --json"},
    ForeignVerb{"explain", "torchlens show TRACE KEY"},
};

const Command* find_command(std::string_view name) {
  const auto* found = std::ranges::find(kCommands, name, &Command::name);
  return found == kCommands.end() ? nullptr : found;
}

std::string indented(std::string_view lines) {
  std::string text;
  while (!lines.empty()) {
    const auto end = lines.find('\n');
    text += "  " + std::string(lines.substr(0, end)) + "\n";
    if (end == std::string_view::npos) break;
    lines.remove_prefix(end + 1);
  }
  return text;
}

std::string top_help() {
  std::string text =
      "torchlens records what a TorchScript model computes, operation by operation.\n\n"
      "Usage: torchlens COMMAND [OPTIONS]\n\nCommands:\n";
  for (const auto& command : kCommands) {
    text += "  " + pad_right(command.name, 10) + std::string(command.summary) + "\n";
  }
  text +=
      "\nOptions of every command:\n"
      "  -h, --help                    what the command does, with examples\n"
      "  -v, --verbose / -q, --quiet   more or less talk on stderr; repeatable\n"
      "  --color auto|always|never     colours; NO_COLOR and CLICOLOR_FORCE are followed\n"
      "  --json, --format text|json    the result as JSON\n"
      "\nExamples:\n";
  for (const auto& command : kCommands) {
    text += indented(command.examples.substr(0, command.examples.find('\n')));
  }
  return text + "\n" + std::string(kExitCodes);
}

/// Options that stand before or after the command and mean the same for all.
struct CommonOptions {
  int verbose = 0;
  int quiet = 0;
  std::string color = "auto";
  std::string format = "text";
  bool json = false;

  void add_to(CLI::App& app, const Command& command) {
    app.add_flag("-v,--verbose", verbose, "more talk on stderr; repeatable")->group("General");
    app.add_flag("-q,--quiet", quiet, "less talk on stderr; repeatable")->group("General");
    app.add_option("--color", color, "auto, always or never")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->type_name("WHEN")
        ->group("General");
    if (!command.has_json) return;
    std::vector<std::string> formats = {"text", "json"};
    for (const auto& more : CLI::detail::split(std::string(command.more_formats), ',')) {
      if (!more.empty()) formats.push_back(more);
    }
    app.add_option("--format", format, formats.size() == 2 ? "text or json" : CLI::detail::join(formats, ", "))
        ->check(CLI::IsMember(formats))
        ->type_name("FORMAT")
        ->group("General");
    app.add_flag("--json", json, "the same as --format json")->group("General");
  }
};

Error usage(const std::string& message, const std::string& hint) { return {ErrorCode::kUsage, message, hint}; }

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

Error unknown_command(const std::string& name) {
  const auto* foreign = std::ranges::find(kForeignVerbs, name, &ForeignVerb::verb);
  if (foreign != kForeignVerbs.end()) {
    Error error =
        usage("'" + name + "' is a command of the Python package", "here it is: " + std::string(foreign->instead));
    return error;
  }
  std::vector<std::string> names;
  for (const auto& command : kCommands) names.emplace_back(command.name);
  const auto close = did_you_mean(name, names);
  return usage("unknown command '" + name + "'",
               close.empty() ? "the commands are " + joined(names) : "did you mean " + joined(close) + "?");
}

Error unknown_argument(const CLI::App& app, const Command& command, const std::string& argument) {
  const auto help = "torchlens " + std::string(command.name) + " --help";
  if (!argument.starts_with("-") || argument == "-") {
    return usage("unexpected argument '" + argument + "'", "see " + help);
  }
  std::vector<std::string> names;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  const auto close = did_you_mean(argument.substr(0, argument.find('=')), names);
  return usage("unknown option '" + argument + "'",
               close.empty() ? "see " + help : "did you mean " + joined(close) + "? see " + help);
}

/// An unset variable of a script must not take the rule away that it stands for.
void refuse_empty_values(const CLI::App& app, const Command& command) {
  for (const auto* option : app.get_options()) {
    if (option->get_lnames().empty() || option->get_expected_min() == 0) continue;
    if (std::ranges::find(option->results(), "") == option->results().end()) continue;
    throw usage("--" + option->get_lnames().front() + " is given an empty value",
                "leave the option out, or see torchlens " + std::string(command.name) + " --help");
  }
}

/// CLI11's texts begin with a capital unless an option does.
std::string message_of(const CLI::ParseError& error) {
  std::string text = error.what();
  if (text.size() > 1 && text[1] >= 'a' && text[1] <= 'z') text[0] = static_cast<char>(std::tolower(text[0]));
  while (!text.empty() && (text.back() == '.' || text.back() == '\n')) text.pop_back();
  return text;
}

Format format_from_name(std::string_view name) {
  constexpr std::pair<std::string_view, Format> kFormats[] = {{"json", Format::kJson},
                                                              {"jsonl", Format::kJsonl},
                                                              {"csv", Format::kCsv},
                                                              {"md", Format::kMarkdown},
                                                              {"chrome", Format::kChrome}};
  const auto* found = std::ranges::find(kFormats, name, &std::pair<std::string_view, Format>::first);
  return found == std::end(kFormats) ? Format::kText : found->second;
}

void apply(const CommonOptions& common, Context& context) {
  context.verbosity = common.verbose - common.quiet;
  context.format = common.json ? Format::kJson : format_from_name(common.format);
  context.out = Output(stdout, wants_color(common.color, stdout));
  context.err = Output(stderr, wants_color(common.color, stderr));
  const LogLevel levels[] = {LogLevel::kOff, LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kDebug};
  set_log_level(levels[std::clamp(context.verbosity + 2, 0, 4)]);
}

int run_command(const Command& command, std::vector<std::string> arguments, Context& context) {
  CLI::App app(std::string(command.summary), "torchlens " + std::string(command.name));
  app.get_formatter()->column_width(32);
  app.set_help_flag("-h,--help", "print this help")->group("General");
  app.allow_extras();
  CommonOptions common;
  const auto runner = command.add_to(app);
  common.add_to(app, command);
  app.footer("Examples:\n" + indented(command.examples) + "\n" + std::string(kExitCodes));
  std::ranges::reverse(arguments);
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    context.out.raw(app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    throw usage(message_of(error), "see torchlens " + std::string(command.name) + " --help");
  }
  apply(common, context);
  refuse_empty_values(app, command);
  auto extras = app.remaining();
  std::erase(extras, "--");  // what follows it was taken as it is: a key such as -1
  if (!extras.empty()) throw unknown_argument(app, command, extras.front());
  return runner(context);
}

/// True if the result is asked for as JSON, whatever else is wrong with the command line.
bool asks_for_json(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--json" || arguments[i] == "--format=json") return true;
    if (arguments[i] == "--format" && i + 1 < arguments.size() && arguments[i + 1] == "json") return true;
  }
  return false;
}

int dispatch(std::vector<std::string> arguments, Context& context) {
  // Options before the command belong to it like those after it.
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].starts_with("-")) {
    const auto& option = arguments[at];
    if (option == "-h" || option == "--help") {
      context.out.raw(top_help());
      return 0;
    }
    if (option == "--version") {
      context.out.line(std::string("torchlens ") + version());
      return 0;
    }
    at += option == "--color" || option == "--format" ? 2 : 1;
  }
  if (at >= arguments.size()) {
    if (!arguments.empty()) throw usage("no command", "see torchlens --help");
    context.err.raw(top_help());
    return static_cast<int>(ExitCode::kUsage);
  }
  const std::string name = arguments[at];
  arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(at));
  if (name == "help") {
    if (const auto* command = arguments.empty() ? nullptr : find_command(arguments.front())) {
      return run_command(*command, {"--help"}, context);
    }
    context.out.raw(top_help());
    return 0;
  }
  const auto* command = find_command(name);
  if (command == nullptr) throw unknown_command(name);
  context.command = command->name;
  return run_command(*command, std::move(arguments), context);
}

}  // namespace

std::span<const Command> commands() { return kCommands; }

void print_error(Context& context, const Error& error) {
  if (context.format == Format::kJson) {
    context.out.raw(json_error(context.command, error));
  }
  context.err.message(Style::kError, "error[" + std::string(to_string(error.code)) + "]: ", error.message);
  const auto print_lines = [&](Style style, const std::string& head, std::string_view lines) {
    while (!lines.empty()) {
      const auto end = lines.find('\n');
      context.err.line(style, head, lines.substr(0, end));
      if (end == std::string_view::npos) break;
      lines.remove_prefix(end + 1);
    }
  };
  print_lines(Style::kBold, "note: ", error.note);
  print_lines(Style::kHint, "hint: ", error.hint);
}

int guarded(Context& context, const std::function<int()>& body) {
  const auto fail = [&](const Error& error) {
    print_error(context, error);
    std::fflush(stdout);
    return static_cast<int>(exit_code_of(error.code));
  };
  try {
    const int code = body();
    context.out.flush();
    return code;
  } catch (const Error& error) {
    return fail(error);
  } catch (const std::bad_alloc&) {
    return fail(Error(ErrorCode::kMemoryLimit, "out of memory"));
  } catch (const std::exception& error) {
    // LibTorch puts a page of stack frames behind the first line.
    const std::string_view text = error.what();
    const auto end = text.find('\n');
    const auto rest =
        end == std::string_view::npos || context.verbosity <= 0 ? std::string_view{} : text.substr(end + 1);
    return fail(Error(ErrorCode::kInternal, std::string(text.substr(0, end)),
                      "please report this with the command line, the file and what -v prints", std::string(rest)));
  }
}

int run(int argc, char** argv) {
  // A limit on the size of files is an error of the write that meets it, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  Context context{.out = Output(stdout, false), .err = Output(stderr, wants_color("auto", stderr)), .command = {}};
  if (asks_for_json(arguments)) context.format = Format::kJson;
  return guarded(context, [&] { return dispatch(std::move(arguments), context); });
}

}  // namespace tl::cli

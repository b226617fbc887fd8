#include "option_groups.h"

#include <CLI/CLI.hpp>

namespace tl::cli {

void add_repeated(CLI::App& app, const std::string& name, std::vector<std::string>& values, const std::string& about,
                  const std::string& type, const std::string& group) {
  app.add_option(name, values, about)->allow_extra_args(false)->type_name(type)->group(group);
}

void add_extension_options(CLI::App& app, std::vector<std::string>& libraries, std::vector<std::string>& allowed_ops,
                           const std::string& group) {
  add_repeated(app, "--load-library", libraries, "a library that registers operators or classes; repeatable", "FILE",
               group);
  add_repeated(app, "--allow-op", allowed_ops, "run this operator although it reaches outside; repeatable", "NAME",
               group);
}

void add_output_options(CLI::App& app, std::string& output, bool& force, const OutputWords& words) {
  app.add_option("-o,--output", output, words.about)->type_name(words.type)->group(words.group);
  app.add_flag("--force", force, "replace " + words.replaces)->group(words.group);
}

}  // namespace tl::cli

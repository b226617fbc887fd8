#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tl::cli {

/// Adds an option that may be given again and takes one value each time, so that what follows stays a positional.
void add_repeated(CLI::App& app, const std::string& name, std::vector<std::string>& values, const std::string& about,
                  const std::string& type, const std::string& group);

/// Adds --load-library and --allow-op: what a model needs that the engine does not run by itself.
void add_extension_options(CLI::App& app, std::vector<std::string>& libraries, std::vector<std::string>& allowed_ops,
                           const std::string& group);

/// The words of -o and --force, which differ with what a command writes.
struct OutputWords {
  std::string about;     ///< of -o
  std::string type;      ///< of its value
  std::string replaces;  ///< what --force replaces
  std::string group;
};

/// Adds -o, --output and --force.
void add_output_options(CLI::App& app, std::string& output, bool& force, const OutputWords& words);

}  // namespace tl::cli

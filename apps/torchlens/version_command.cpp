#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "core/build_id.h"
#include "json_output.h"

namespace tl::cli {

Runner add_version_command(CLI::App&) {
  return [](Context& context) {
    if (context.format == Format::kJson) {
      nlohmann::ordered_json body;
      body["version"] = version();
      body["build_id"] = build_id();
      context.out.raw(json_envelope("version", true, body));
    } else {
      context.out.line(std::string("torchlens ") + version());
      context.out.line(std::string("build id  ") + build_id());
    }
    return 0;
  };
}

}  // namespace tl::cli

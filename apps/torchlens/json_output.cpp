#include "json_output.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/json_text.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string json_envelope(std::string_view command, bool ok, const Json& body) {
  Json envelope;
  envelope["schema"] = "torchlens." + std::string(command.empty() ? "error" : command) + "/1";
  envelope["ok"] = ok;
  for (const auto& [key, value] : body.items()) envelope[key] = value;
  return json_text(std::move(envelope), JsonStyle::kLog);
}

std::string json_error(std::string_view command, const Error& error) {
  Json body;
  body["error"] = {{"code", to_string(error.code)},
                   {"message", error.message},
                   {"note", error.note},
                   {"hint", error.hint},
                   {"exit", static_cast<int>(exit_code_of(error.code))}};
  return json_envelope(command, false, body);
}

Json json_number(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

}  // namespace tl::cli

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli.h"
#include "core/build_id.h"
#include "core/text.h"
#include "engine/registry.h"
#include "engine/supervisor.h"
#include "json_output.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Total and available memory in bytes; 0 where /proc does not tell.
std::pair<std::uint64_t, std::uint64_t> memory() {
  std::FILE* file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return {0, 0};
  std::pair<std::uint64_t, std::uint64_t> result{0, 0};
  char name[64];
  unsigned long long kilobytes = 0;
  while (std::fscanf(file, "%63s %llu%*[^\n]", name, &kilobytes) == 2) {
    if (std::string_view(name) == "MemTotal:") result.first = kilobytes * 1024;
    if (std::string_view(name) == "MemAvailable:") result.second = kilobytes * 1024;
  }
  std::fclose(file);
  return result;
}

Json findings(CrashSlate& slate, bool& works) {
  Json body;
  body["version"] = version();
  body["build_id"] = build_id();
  const auto directory = executable_directory();
  body["executable_directory"] = directory.string();
  for (const auto& place : engine_locations(directory)) {
    std::error_code error;
    body["engine_locations"].push_back({{"path", place.string()}, {"found", std::filesystem::exists(place, error)}});
  }
  body["threads"] = std::thread::hardware_concurrency();
  const auto [total, available] = memory();
  body["memory_bytes"] = total;
  body["memory_available_bytes"] = available;
  set_phase(slate, "opening the engine");
  try {
    const auto engine = open_engine(directory);
    engine->set_crash_slate(&slate);
    body["engine"] = {{"found", true}, {"version", engine->version()}, {"operators", engine->operator_names().size()}};
    works = true;
  } catch (const Error& error) {  // what is missing is the result here, not the end of the command
    body["engine"] = {
        {"found", false}, {"code", to_string(error.code)}, {"message", error.message}, {"hint", error.hint}};
    works = false;
  }
  return body;
}

void print_findings(Output& out, const Json& body) {
  const auto say = [&](bool good, const std::string& head, const std::string& rest) {
    out.line(good ? Style::kBold : Style::kError, good ? "ok       " : "missing  ", pad_right(head, 13) + rest);
  };
  say(true, "torchlens", body["version"].get<std::string>() + "   build id " + body["build_id"].get<std::string>());
  const auto& engine = body["engine"];
  const bool found = engine["found"].get<bool>();
  if (found) {
    say(true, "engine", engine["version"].get<std::string>() + "   " + engine["operators"].dump() + " operators");
  } else {
    say(false, "engine", engine["message"].get<std::string>());
    out.line(Style::kHint, "         hint: ", engine["hint"].get<std::string>());
  }
  for (const auto& place : body["engine_locations"]) {
    out.line("         " + pad_right(place["found"].get<bool>() ? "found" : "not there", 13) +
             place["path"].get<std::string>());
  }
  say(true, "threads", body["threads"].dump());
  say(true, "memory",
      format_bytes(body["memory_bytes"].get<std::uint64_t>()) + ", " +
          format_bytes(body["memory_available_bytes"].get<std::uint64_t>()) + " available");
  out.line();
  out.line(found ? "everything works" : "models cannot be run; recordings can be read");
}

int doctor(Context& context) {
  return supervise({}, [&](CrashSlate& slate) {
    return guarded(context, [&] {
      bool works = false;
      const auto body = findings(slate, works);
      if (context.format == Format::kJson) {
        context.out.raw(json_envelope("doctor", works, body));
      } else {
        print_findings(context.out, body);
      }
      return works ? 0 : static_cast<int>(ExitCode::kRefused);
    });
  });
}

}  // namespace

Runner add_doctor_command(CLI::App&) { return doctor; }

}  // namespace tl::cli

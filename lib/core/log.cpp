#include "core/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <string>

#include "core/escape.h"

namespace tl {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger made("torchlens", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made.set_pattern("%l: %v");
    made.set_level(spdlog::level::warn);
    made.flush_on(spdlog::level::trace);
    return made;
  }();
  return instance;
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(spdlog_level(level)); }

void log(LogLevel level, std::string_view text) {
  if (!logger().should_log(spdlog_level(level))) return;
  std::string safe = escape_lines_for_terminal(text);
  if (!safe.empty()) safe.pop_back();  // the pattern ends the line
  logger().log(spdlog_level(level), "{}", safe);
}

void write_error_lines(std::string_view text) {
  const std::string safe = escape_lines_for_terminal(text);
  std::fwrite(safe.data(), 1, safe.size(), stderr);
  std::fflush(stderr);
}

}  // namespace tl

#include "core/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <string>

#include "core/text.h"

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
  std::string safe;
  while (true) {
    const auto end = text.find('\n');
    safe += escape_for_terminal(text.substr(0, end));
    if (end == std::string_view::npos) break;
    safe += '\n';
    text.remove_prefix(end + 1);
  }
  logger().log(spdlog_level(level), "{}", safe);
}

}  // namespace tl

#pragma once

#include <string_view>

namespace tl {

/// What a message on stderr is about; only messages at or above the set level are printed.
enum class LogLevel { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kOff = 4 };

/// Sets the least level that is printed; the initial one is kWarning. Thread-safe.
void set_log_level(LogLevel level);

/// Prints `level: text` to stderr. Every line of `text` is escaped for terminals, so names from files may stand in it.
/// Thread-safe.
void log(LogLevel level, std::string_view text);

/// Writes lines to stderr at once, each escaped for terminals: what a model prints, what a supervisor has to say. No
/// level applies. Thread-safe.
void write_error_lines(std::string_view text);

}  // namespace tl

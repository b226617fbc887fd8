#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace tl {

/// Exit codes of every command; product contract, listed in `--help`.
enum class ExitCode : int {
  kGood = 0,
  kNegativeVerdict = 1,
  kUsage = 2,
  kFile = 3,
  kRefused = 4,
  kModelRaised = 5,
  kBug = 70,
  kTimeLimit = 124,
  kInterrupted = 130,
  kClosedPipe = 141,
  kTerminated = 143,
};

/// Stable error codes; one row each in error_codes.def.
enum class ErrorCode : std::uint16_t {
#define TL_ERROR(name, string, exit_class, help) name,
#include "core/error_codes.def"
#undef TL_ERROR
};

/// The stable snake_case string of a code, as printed in `error[code]` and in JSON.
std::string_view to_string(ErrorCode code);
/// One sentence of help for a code, as printed in docs/errors.md.
std::string_view help_of(ErrorCode code);
/// The exit code that a command ends with when this error reaches the top.
ExitCode exit_code_of(ErrorCode code);

/// Thrown when the current command cannot go on. `message` is lower-case without a final period and names file, site
/// and the numbers that disagree; `hint` says what to type, and may be empty; `note` says what was expected, and may be
/// empty.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message, std::string hint = {}, std::string note = {});

  const char* what() const noexcept override { return message.c_str(); }

  ErrorCode code;
  std::string message;
  std::string hint;
  std::string note;
};

/// Throws Error(kInternal) when an invariant of ours does not hold. Never for user input.
#define TL_CHECK(condition, text)                                               \
  do {                                                                          \
    if (!(condition)) ::tl::check_failed(#condition, text, __FILE__, __LINE__); \
  } while (false)

[[noreturn]] void check_failed(const char* condition, std::string_view text, const char* file, int line);

}  // namespace tl

#include "core/error.h"

#include <array>
#include <utility>

namespace tl {
namespace {

struct Row {
  std::string_view string;
  ExitCode exit;
  std::string_view help;
};

constexpr std::array kRows = {
#define TL_ERROR(name, string, exit_class, help) Row{string, ExitCode::k##exit_class, help},
#include "core/error_codes.def"
#undef TL_ERROR
};

const Row& row_of(ErrorCode code) { return kRows.at(static_cast<std::size_t>(code)); }

}  // namespace

std::string_view to_string(ErrorCode code) { return row_of(code).string; }
std::string_view help_of(ErrorCode code) { return row_of(code).help; }
ExitCode exit_code_of(ErrorCode code) { return row_of(code).exit; }

Error::Error(ErrorCode error_code, std::string text, std::string hint_text, std::string note_text)
    : code(error_code), message(std::move(text)), hint(std::move(hint_text)), note(std::move(note_text)) {}

void check_failed(const char* condition, std::string_view text, const char* file, int line) {
  const std::string_view path(file);
  const auto slash = path.rfind('/');
  const std::string_view base = slash == std::string_view::npos ? path : path.substr(slash + 1);
  throw Error(ErrorCode::kInternal,
              std::string(text) + " (" + condition + " at " + std::string(base) + ":" + std::to_string(line) + ")",
              "this is a defect of torchlens; please report it with the model file");
}

}  // namespace tl

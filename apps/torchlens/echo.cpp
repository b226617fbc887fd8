#include "echo.h"

#include <string_view>

#include "core/text.h"
#include "text_format.h"

namespace tl::cli {

void Echo::operator()(const Capture& capture, std::uint32_t event) {
  constexpr std::string_view kTypes[] = {"", "input", "buffer", "output"};
  const auto& record = capture.events[event];
  const auto text_of = [&](std::int32_t code) { return code < 0 ? std::string_view() : capture.strings[code]; };
  const bool is_op = record.kind == OpKind::kOperation;
  const std::string type(is_op ? text_of(capture.instructions.layer_type[record.instruction])
                               : kTypes[static_cast<std::size_t>(record.kind)]);
  const std::string name(is_op ? text_of(capture.instructions.func_name[record.instruction])
                               : text_of(static_cast<std::int32_t>(record.address)));
  const auto label = type + "_" + std::to_string(++seen_[type]) + "_" + std::to_string(event + 1) + "_raw";
  const auto module = static_cast<std::size_t>(capture.module_calls.module[record.module_call]);
  const auto address = module == 0 ? std::string_view() : text_of(capture.modules.address[module]);
  auto line = pad_right(label, 26) + " " + pad_right(name, 16) + " " +
              pad_right(format_type(record.dtype, capture.shapes[static_cast<std::int32_t>(record.shape)]), 20) + " " +
              std::string(address);
  line.erase(line.find_last_not_of(' ') + 1);
  err_.line(line);
}

}  // namespace tl::cli

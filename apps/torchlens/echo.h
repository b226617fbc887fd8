#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "output.h"
#include "trace/capture.h"

namespace tl::cli {

/// `--echo`: one line an Op on stderr, right after it ran: raw label, function, type of the value, module.
class Echo {
 public:
  explicit Echo(Output& err) : err_(err) {}
  void operator()(const Capture& capture, std::uint32_t event);

 private:
  Output& err_;
  std::unordered_map<std::string, std::int64_t> seen_;  ///< events by layer type
};

}  // namespace tl::cli

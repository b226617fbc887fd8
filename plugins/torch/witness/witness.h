#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <map>
#include <string>

#include "trace/capture.h"

namespace tl::lt {

/// The dispatcher census: counts the top-level calls that RecordFunction sees in this thread while it lives.
class Witness {
 public:
  Witness();
  ~Witness();
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  /// Stops counting and returns the calls by qualified operator name, overload left out.
  const std::map<std::string, std::int64_t>& stop();
  /// Stops counting and writes the comparison with `capture`'s records to its health. Called before Recorder::finish.
  void finish(Capture& capture);

 private:
  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
  std::map<std::string, std::int64_t> calls_;
};

}  // namespace tl::lt

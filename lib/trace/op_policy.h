#pragma once

#include <cstdint>

namespace tl {

struct Capture;

/// The answer to a question about an Op while the model runs.
enum class LiveAnswer : std::uint8_t {
  kNo = 0,
  kYes = 1,
  kLater = 2,  ///< it depends on what is not known yet: the end of a module call, final labels
};

/// A question put to every Op as it is produced: keep its value? stop after it? Made once a run; answers must not
/// allocate, look up strings or depend on anything but the capture, so that a run answers alike every time.
class OpPolicy {
 public:
  virtual ~OpPolicy() = default;
  /// Asked once for each event of the capture, in order, right after it was appended; inputs and buffers included.
  virtual LiveAnswer on_op(const Capture& capture, std::uint32_t event) = 0;
  /// Asked when a module call has returned; `output` is the event of the value that it returned first, OpId::kNone
  /// where it returned no recorded tensor. Yes answers for `output`.
  virtual LiveAnswer on_module_exit(const Capture& capture, std::uint32_t module_call, std::uint32_t output) = 0;
  /// What an event of that call that was answered with kLater comes to after on_module_exit: kNo where it can no longer
  /// be chosen, so that its value may go.
  virtual LiveAnswer after_module_exit(const Capture& capture, std::uint32_t event, std::uint32_t module_call,
                                       std::uint32_t output) {
    static_cast<void>(capture);
    static_cast<void>(event);
    static_cast<void>(module_call);
    static_cast<void>(output);
    return LiveAnswer::kLater;
  }
};

}  // namespace tl

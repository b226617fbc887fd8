#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "select/selector.h"
#include "trace/op_policy.h"

namespace tl {

/// A Selector asked of events while a model runs. What is decided at once: func, in_module, input, buffer, where over
/// fields that are known when an Op has run, keys that are addresses or roles, and labels as far as their type goes.
/// module (and a key that is a module) is decided when the call returns. All else is later: final labels, contains,
/// regex, output, followed_by, preceded_by, other fields; `resolve` on the finished Trace settles it. What hangs on the
/// instruction or the module call alone is worked out once for each, so that an answer takes nanoseconds.
class LiveSelector : public OpPolicy {
 public:
  /// Throws Error as resolve does for fields that do not exist, types and patterns.
  explicit LiveSelector(const Selector& selector);
  ~LiveSelector() override;

  LiveAnswer on_op(const Capture& capture, std::uint32_t event) override;
  LiveAnswer on_module_exit(const Capture& capture, std::uint32_t module_call, std::uint32_t output) override;

  /// What an event that was answered with kLater comes to after `module_call` returned `output`: kNo where it can no
  /// longer be chosen, so that its value may go.
  LiveAnswer after_module_exit(const Capture& capture, std::uint32_t event, std::uint32_t module_call,
                               std::uint32_t output);

  /// The first term that only the finished trace decides, in canonical text; nullopt if the whole selector is decided
  /// while the model runs. Keys count as decided only once a capture was seen: pass it where there is one.
  std::optional<std::string> first_unsettled_term(const Capture* capture = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tl

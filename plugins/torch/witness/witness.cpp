#include "witness/witness.h"

#include <algorithm>
#include <string_view>

#include "ops/op_semantics.h"

namespace tl::lt {
namespace {

thread_local int depth = 0;
thread_local std::map<std::string, std::int64_t>* active = nullptr;

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  if (depth++ == 0 && active != nullptr) ++(*active)[function.name()];
  return nullptr;
}

void on_end(const at::RecordFunction&, at::ObserverContext*) { --depth; }

/// Takes the calls of `times` executions from the census. The list is that of OpSemantics::top_level_calls: by comma,
/// `?` at most once, `*` any number of times.
void account(std::string_view list, std::int64_t times, std::map<std::string, std::int64_t>& census) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    auto name = list.substr(0, comma);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    const bool any = name.ends_with('*');
    if (any || name.ends_with('?')) name.remove_suffix(1);
    if (const auto found = census.find(std::string(name)); found != census.end()) {
      found->second -= any ? found->second : std::min(found->second, times);
    }
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
  }
}

}  // namespace

Witness::Witness() {
  depth = 0;
  active = &calls_;
  handle_ =
      at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end).scopes({at::RecordScope::FUNCTION}));
}

Witness::~Witness() { stop(); }

const std::map<std::string, std::int64_t>& Witness::stop() {
  if (handle_ != at::INVALID_CALLBACK_HANDLE) {
    at::removeCallback(handle_);
    handle_ = at::INVALID_CALLBACK_HANDLE;
    active = nullptr;
  }
  return calls_;
}

void Witness::finish(Capture& capture) {
  auto census = stop();
  auto& health = capture.run.health;
  health.witnessed = true;
  for (const auto& [name, count] : census) health.dispatcher_calls += count;
  for (std::size_t row = 0; row < capture.executions.size(); ++row) {
    const auto count = static_cast<std::int64_t>(capture.executions[row]);
    if (count == 0) continue;
    const auto name = std::string(capture.strings[capture.instructions.op_name[row]]);
    const bool dispatched = (capture.instructions.flags[row] & kInstrDispatched) != 0;
    const auto overload = std::string(capture.strings[capture.instructions.overload[row]]);
    if (dispatched)
      account(name, count, census);
    else
      account(op_semantics(overload.empty() ? name : name + "." + overload).top_level_calls, count, census);
  }
  for (const auto& [name, count] : census) health.unaccounted_calls += count;
}

}  // namespace tl::lt

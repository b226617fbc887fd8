#include "progress.h"

#include <cstdlib>
#include <cstring>

#include "core/text.h"
#include "engine/supervisor.h"

namespace tl::cli {
namespace {

constexpr auto kRefresh = std::chrono::milliseconds(200);
constexpr auto kHeartbeat = std::chrono::seconds(10);
constexpr std::size_t kEventsPerLook = 16;

}  // namespace

Progress::Progress(Context& context, CrashSlate& slate) : context_(context), slate_(slate) {
  const char* term = std::getenv("TERM");
  on_terminal_ =
      context.err.is_terminal() && std::getenv("CI") == nullptr && (term == nullptr || std::strcmp(term, "dumb") != 0);
  next_ = start_ + (on_terminal_ ? Clock::duration(kRefresh) : Clock::duration(kHeartbeat));
}

void Progress::operator()(std::size_t events) {
  slate_.events = events;
  throw_if_interrupted();
  // An engine may call this at every event: reading a clock each time would be felt.
  if (context_.quiet() || events % kEventsPerLook != 0) return;
  const auto now = Clock::now();
  if (now < next_) return;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto text = "running  " + std::to_string(events) + " events  " + format_duration(seconds);
  if (on_terminal_) {
    context_.err.status(text);
  } else {
    context_.err.line(text);
    context_.err.flush();
  }
  next_ = now + (on_terminal_ ? Clock::duration(kRefresh) : Clock::duration(kHeartbeat));
}

void Progress::finish() {
  if (on_terminal_) context_.err.status({});
}

}  // namespace tl::cli

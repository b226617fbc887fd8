#pragma once

#include "engine/engine.h"

namespace tl::lt {

/// Where this process writes down what it is at, for the parent that reports a crash; null without one.
CrashSlate* crash_slate();

/// Fills `slate` from now on, also on a fatal signal; null detaches.
void set_crash_slate(CrashSlate* slate);

/// Notes the phase in the slate, if there is one.
void set_phase(const char* text);

}  // namespace tl::lt

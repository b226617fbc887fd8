#pragma once

#include <functional>

#include "command.h"
#include "core/error.h"

namespace tl::cli {

/// The program: parses the command line, runs the command, prints what went wrong. Returns the exit code.
int run(int argc, char** argv);

/// Runs `body`; what it throws is printed to context.err (and, for JSON, as an envelope to context.out) and becomes the
/// exit code. The only place where errors end.
int guarded(Context& context, const std::function<int()>& body);

/// Prints `error[code]: …`, `note: …`, `hint: …`.
void print_error(Context& context, const Error& error);

}  // namespace tl::cli

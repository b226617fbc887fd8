#pragma once

namespace tl {

/// The id of this build, 32 hex digits: a hash of commit, version, compiler, build flags and the content of all headers
/// of lib/. The executable and the engine plugin share C++ types, so they work together only if their ids are equal.
const char* build_id();

/// The version of the project, `major.minor.patch`.
const char* version();

}  // namespace tl

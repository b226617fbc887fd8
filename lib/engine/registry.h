#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "engine/engine.h"

namespace tl {

/// File name of the LibTorch engine plugin.
inline constexpr const char* kEngineFileName = "torchlens_torch.so";

/// The directory of the running executable. Throws Error(kInternal) where /proc does not tell.
std::filesystem::path executable_directory();

/// The files that open_engine tries, in order: beside the executable, then in the plugin directories of an installed
/// tree.
std::vector<std::filesystem::path> engine_locations(const std::filesystem::path& executable_dir);

/// Opens the first engine plugin found at engine_locations; it stays loaded until the process ends.
/// Throws Error: kEngineMissing (no such file at any place, or it is no plugin), kEngineMismatch (built for another
/// build of the executable; nothing of it was called but its id), kLibTorchMissing (LibTorch's libraries were not
/// found).
std::unique_ptr<Engine> open_engine(const std::filesystem::path& executable_dir);

/// The same for one plugin file.
std::unique_ptr<Engine> open_engine_file(const std::filesystem::path& plugin);

}  // namespace tl

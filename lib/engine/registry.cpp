#include "engine/registry.h"

#include <dlfcn.h>

#include <string>
#include <string_view>
#include <system_error>

#include "core/build_id.h"
#include "core/error.h"

#ifndef TL_PLUGIN_DIR
#define TL_PLUGIN_DIR "../lib/torchlens/plugins"
#endif

namespace tl {
namespace {

namespace fs = std::filesystem;

bool names_libtorch(std::string_view message) {
  return message.find("libtorch") != std::string_view::npos || message.find("libc10") != std::string_view::npos;
}

[[noreturn]] void throw_not_opened(const fs::path& plugin, const std::string& reason) {
  if (names_libtorch(reason)) {
    throw Error(ErrorCode::kLibTorchMissing, "LibTorch was not found: " + reason,
                "run scripts/setup, or put the directory that holds libtorch_cpu.so into LD_LIBRARY_PATH",
                "needed by " + plugin.string());
  }
  throw Error(ErrorCode::kEngineMissing, plugin.string() + ": the engine plugin cannot be opened: " + reason,
              "build it again by scripts/setup");
}

template <typename Function>
Function symbol_of(void* handle, const char* name, const fs::path& plugin) {
  void* symbol = dlsym(handle, name);
  if (symbol == nullptr) {
    throw Error(ErrorCode::kEngineMissing, plugin.string() + ": is no engine plugin: it exports no " + name,
                "build it again by scripts/setup");
  }
  return reinterpret_cast<Function>(symbol);
}

}  // namespace

fs::path executable_directory() {
  std::error_code error;
  const auto path = fs::read_symlink("/proc/self/exe", error);
  if (error) throw Error(ErrorCode::kInternal, "/proc/self/exe: " + error.message());
  return path.parent_path();
}

std::vector<fs::path> engine_locations(const fs::path& executable_dir) {
  std::vector<fs::path> places = {executable_dir / kEngineFileName};
  for (const char* directory : {TL_PLUGIN_DIR, "../lib/torchlens/plugins"}) {
    auto place = (executable_dir / directory / kEngineFileName).lexically_normal();
    if (place != places.back()) places.push_back(std::move(place));
  }
  return places;
}

std::unique_ptr<Engine> open_engine_file(const fs::path& plugin) {
  // RTLD_LOCAL: what LibTorch exports must not meet the symbols of other plugins. Never closed: LibTorch registers
  // state at load time that outlives any use.
  void* handle = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    throw_not_opened(plugin, reason != nullptr ? reason : "unknown reason");
  }
  const auto id_of = symbol_of<EngineBuildIdFn>(handle, kEngineBuildIdSymbol, plugin);
  if (const std::string_view theirs = id_of(); theirs != build_id()) {
    throw Error(ErrorCode::kEngineMismatch,
                plugin.string() + ": built as " + std::string(theirs) + ", the executable is " + build_id(),
                "build both together by scripts/setup");
  }
  return std::unique_ptr<Engine>(symbol_of<EngineOpenFn>(handle, kEngineOpenSymbol, plugin)());
}

std::unique_ptr<Engine> open_engine(const fs::path& executable_dir) {
  std::string looked_at;
  for (const auto& place : engine_locations(executable_dir)) {
    std::error_code error;
    if (fs::exists(place, error)) return open_engine_file(place);
    looked_at += (looked_at.empty() ? "looked at " : "\nlooked at ") + place.string();
  }
  throw Error(ErrorCode::kEngineMissing, std::string("the engine plugin ") + kEngineFileName + " was not found",
              "run scripts/setup, which builds it beside the executable", looked_at);
}

}  // namespace tl

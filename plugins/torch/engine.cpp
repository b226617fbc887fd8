#include "engine/engine.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <torch/csrc/jit/runtime/print_handler.h>

#include "archive/model_kind.h"
#include "core/build_id.h"
#include "core/error.h"
#include "core/log.h"
#include "crash_slate.h"
#include "operators/quantized_decomposed.h"
#include "session.h"
#include "torchscript/registry_names.h"

namespace tl::lt {
namespace {

/// Warnings of operators reach stderr through our sink, one line each.
class Warnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { write_error_lines("model warning: " + warning.msg()); }
};

class TorchEngine final : public Engine {
 public:
  std::string version() const override { return engine_version(); }

  std::unique_ptr<Session> load(const ModelRequest& request) override {
    if (request.threads > 0) at::set_num_threads(request.threads);
    static Warnings warnings;
    c10::WarningUtils::set_warning_handler(&warnings);
    torch::jit::setPrintHandler([](const std::string& text) { write_error_lines(text); });
    for (const auto& library : request.libraries) {
      if (::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
        throw Error(ErrorCode::kLibraryNotLoaded, std::string("cannot open ") + library + ": " + ::dlerror());
      }
    }
    register_quantized_decomposed();  // after the libraries: what they define under the same names is kept
    const auto info = inspect_model_file(request.path);
    if (auto refusal = refusal_for(info)) throw *std::move(refusal);
    return info.kind == ModelKind::kExportedProgram ? make_exported_session(request) : make_script_session(request);
  }

  std::vector<std::string> operator_names() const override {
    register_quantized_decomposed();
    return known_operator_names();
  }

  void set_crash_slate(CrashSlate* slate) override { lt::set_crash_slate(slate); }
};

}  // namespace
}  // namespace tl::lt

extern "C" {
__attribute__((visibility("default"))) const char* torchlens_engine_build_id() { return tl::build_id(); }
__attribute__((visibility("default"))) tl::Engine* torchlens_engine_open() { return new tl::lt::TorchEngine(); }
}

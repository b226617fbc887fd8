// An engine plugin for registry_test: with the host's build id, a wrong one (TL_WRONG_ID), or needing a library that is
// not there (TL_NEEDS_LIBTORCH).
#include <stdexcept>

#include "core/build_id.h"
#include "engine/engine.h"

#ifdef TL_NEEDS_LIBTORCH
extern "C" int torch_absent_symbol();
#endif

namespace {

class FakeEngine : public tl::Engine {
 public:
  std::string version() const override { return "fake 1.0"; }
  std::unique_ptr<tl::Session> load(const tl::ModelRequest&) override { throw std::logic_error("not loaded"); }
  std::vector<std::string> operator_names() const override { return {}; }
  void set_crash_slate(tl::CrashSlate*) override {}
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* torchlens_engine_build_id() {
#ifdef TL_WRONG_ID
  return "0123456789abcdef0123456789abcdef";
#else
  return tl::build_id();
#endif
}

extern "C" __attribute__((visibility("default"))) tl::Engine* torchlens_engine_open() {
#ifdef TL_NEEDS_LIBTORCH
  torch_absent_symbol();
#endif
  return new FakeEngine;
}

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace tl::test {

/// How the fake model ends.
enum class FakeEnd { kComplete, kRaises, kIsInterrupted, kHalts, kIsNonFinite };

/// An engine without LibTorch. Its model is forward(Tensor x, int times=2): fc (a Linear of 4 to 3), then relu in a
/// loop, then + 1; whatever is given, it records the same run with the payloads of that text.
class FakeEngine : public Engine {
 public:
  explicit FakeEngine(FakeEnd end = FakeEnd::kComplete) : end_(end) {}
  std::string version() const override { return "FakeTorch 1.0"; }
  std::unique_ptr<Session> load(const ModelRequest& request) override;
  std::vector<std::string> operator_names() const override { return {"aten::add", "aten::linear"}; }
  void set_crash_slate(CrashSlate*) override {}

  ModelRequest requested;                ///< what the last load was asked for
  RunRequest ran;                        ///< what the last run was asked for; what it points to is gone
  std::vector<std::uint32_t> undecided;  ///< what the run says it could not tell yet

 private:
  FakeEnd end_;
};

}  // namespace tl::test

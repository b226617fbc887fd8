#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "executor/executor.h"
#include "program/loaded_model.h"

namespace tl::lt {

/// LibTorch 2.13.0
std::string engine_version();

/// What a run of any loaded model does: bind, record, tell how it ended. The formats differ in how they bind, start and
/// load anew.
class ModelSession : public Session {
 public:
  explicit ModelSession(ModelRequest request) : request_(std::move(request)) {}

  const ModelInfo& info() const override { return info_; }
  RunResult run(const RunRequest& request, Capture& capture) override;
  RunResult run_plain(const RunRequest& request) override;

 protected:
  using Values = std::vector<c10::IValue>;

  virtual LoadedModel& model() = 0;
  /// Brings back the state of the file.
  virtual void reload() = 0;
  /// The values to run with. Throws Error(kInputMismatch).
  virtual Values bind(const RunRequest& request, std::vector<std::string>& notes) = 0;
  virtual std::vector<OutputValue> execute(Executor& executor, Values values) = 0;
  /// What an error of the model says in words of the file, in those of its callers; empty where that adds nothing.
  virtual std::string explain(const std::string& message) const;
  /// The same without recording: LibTorch's own interpreter, or each operator called bare.
  virtual std::vector<OutputValue> execute_plain(Values values) = 0;

  ModelRequest request_;
  ModelInfo info_;

 private:
  /// Every run starts from the file's state. A recorded run that wrote nothing leaves it as it was.
  void reload_if_used();
  void prepare(Capture& capture, const RunRequest& request);
  void stop_reason(const std::exception_ptr& stop, Capture& capture, const std::string& place);

  bool used_ = false;
  bool state_dirty_ = true;
  bool stopped_by_model_ = false;
};

/// Loads a TorchScript file.
std::unique_ptr<Session> make_script_session(const ModelRequest& request);
/// Loads an exported program.
std::unique_ptr<Session> make_exported_session(const ModelRequest& request);

/// The leaves of a returned value by structural path.
std::vector<OutputValue> outputs_of(const c10::IValue& value, const std::string& role);

}  // namespace tl::lt

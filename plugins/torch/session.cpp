#include "session.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/functorch/DynamicLayer.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/runtime/jit_exception.h>
#include <torch/version.h>

#include <chrono>

#include "bridge/tensor_bridge.h"
#include "core/error.h"
#include "crash_slate.h"
#include "engine/supervisor.h"
#include "executor/arena.h"
#include "witness/witness.h"

namespace tl::lt {
namespace {

/// Autocast and grad state as they were, however the run ends.
class StateGuard {
 public:
  explicit StateGuard(bool grad)
      : grad_(grad),
        autocast_(at::autocast::is_autocast_enabled(at::kCPU)),
        dtype_(at::autocast::get_autocast_dtype(at::kCPU)) {}
  ~StateGuard() {
    at::autocast::set_autocast_enabled(at::kCPU, autocast_);
    at::autocast::set_autocast_dtype(at::kCPU, dtype_);
  }
  StateGuard(const StateGuard&) = delete;
  StateGuard& operator=(const StateGuard&) = delete;

 private:
  c10::AutoGradMode grad_;
  bool autocast_;
  at::ScalarType dtype_;
};

/// Levels of vmap that a run which raised left open.
class VmapGuard {
 public:
  ~VmapGuard() {
    while (at::functorch::getDynamicLayerStack().size() > depth_) at::functorch::popDynamicLayerAndDeleteMetadata();
  }
  VmapGuard() = default;
  VmapGuard(const VmapGuard&) = delete;
  VmapGuard& operator=(const VmapGuard&) = delete;

 private:
  std::size_t depth_ = at::functorch::getDynamicLayerStack().size();
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void reset_caches(Block& block) {
  for (auto& instruction : block.instructions) {
    instruction.shape_cache.clear();
    instruction.context_from = instruction.context_to = 0xffffffff;
    for (auto& nested : instruction.blocks) reset_caches(nested);
  }
}

/// `aten::linear at model.py:12 in module net.1`
std::string place_of_run(const Executor& executor, const Recorder& recorder) {
  if (executor.current() == nullptr) return {};
  const auto module = recorder.module_address();
  return executor.current()->where + (module.empty() ? "" : " in module " + module);
}

void fail(Capture& capture, const std::string& place, const std::string& type, const std::string& message) {
  auto& outcome = capture.run.outcome;
  outcome.status = "failed";
  outcome.origin = "user_op";
  outcome.error_type = type;
  outcome.reason = message;
  outcome.boundary_kind = "op";
  outcome.boundary_label = place;
  outcome.n_ops_committed = static_cast<std::int64_t>(capture.events.size());
}

}  // namespace

std::string engine_version() { return std::string("LibTorch ") + TORCH_VERSION; }

std::vector<OutputValue> outputs_of(const c10::IValue& value, const std::string& role) {
  std::vector<OutputValue> outputs;
  for_each_leaf(value, role, [&](const std::string& path, const c10::IValue& leaf) {
    if (leaf.isTensor() && leaf.toTensor().defined())
      outputs.push_back({path, make_tensor_ref(leaf.toTensor()), {}});
    else
      outputs.push_back({path, nullptr, text_of(leaf)});
  });
  return outputs;
}

RunResult ModelSession::run(const RunRequest& request, Capture& capture) {
  if (request.reload) reload_if_used();
  RunResult result;
  auto values = bind(request, result.notes);
  prepare(capture, request);
  Recorder::Options options;
  options.keep_payloads = request.keep_payloads;
  options.progress = request.progress;
  options.slate = crash_slate();
  Recorder recorder(capture, model().modules, options);
  Executor executor(model().program, recorder, !request.witness);
  const StateGuard guard(request.grad);
  const VmapGuard vmap;
  at::manual_seed(static_cast<std::uint64_t>(request.seed));
  set_phase("running the model");
  used_ = true;
  const auto witness = request.witness ? std::make_unique<Witness>() : nullptr;
  const auto start = std::chrono::steady_clock::now();
  std::exception_ptr stop;
  const auto arena = request.keep_payloads ? std::make_unique<ArenaScope>() : nullptr;
  try {
    auto outputs = execute(executor, std::move(values));
    result.forward_seconds = seconds_since(start);
    result.outputs = std::move(outputs);
  } catch (const UserError& error) {
    fail(capture, place_of_run(executor, recorder), error.type, error.what());
  } catch (const c10::Error& error) {
    fail(capture, place_of_run(executor, recorder), "RuntimeError", error.what_without_backtrace());
  } catch (const torch::jit::JITException& error) {
    fail(capture, place_of_run(executor, recorder), error.getPythonClassName().value_or("Exception"),
         error.getOriginalMsg().value_or(error.what()));
  } catch (const Error&) {
    throw;
  } catch (...) {
    stop = std::current_exception();
  }
  if (stop) stop_reason(stop, capture, place_of_run(executor, recorder));
  if (result.forward_seconds == 0) result.forward_seconds = seconds_since(start);
  if (witness) witness->finish(capture);
  recorder.finish();
  capture.run.forward_seconds = result.forward_seconds;
  state_dirty_ = recorder.state_dirty() || !capture.run.outcome.complete();
  if (stop && !stopped_by_model_) std::rethrow_exception(stop);
  return result;
}

RunResult ModelSession::run_plain(const RunRequest& request) {
  if (request.reload) reload_if_used();
  RunResult result;
  auto values = bind(request, result.notes);
  const StateGuard guard(request.grad);
  const VmapGuard vmap;
  at::manual_seed(static_cast<std::uint64_t>(request.seed));
  used_ = true;
  const auto start = std::chrono::steady_clock::now();
  result.outputs = execute_plain(std::move(values));
  result.forward_seconds = seconds_since(start);
  state_dirty_ = true;  // nobody watched what it wrote
  return result;
}

void ModelSession::reload_if_used() {
  if (used_ && state_dirty_) reload();
  used_ = false;
}

void ModelSession::prepare(Capture& capture, const RunRequest& request) {
  const auto& tables = model().tables;
  capture.strings = StringPool::extending(model().shared_strings);
  capture.shapes = tables.shapes;
  capture.instructions = tables.instructions;
  capture.call_sites = tables.call_sites;
  capture.executions.assign(tables.instructions.op_name.size(), 0);
  capture.modules = tables.modules;
  capture.params = tables.params;
  capture.buffers = tables.buffers;
  for (auto& function : model().program.functions) reset_caches(function->body);
  auto& run = capture.run;
  run.model_kind = info_.kind;
  run.model_class = info_.class_name;
  run.engine = engine_version();
  run.method = info_.signature.method;
  run.mode = info_.mode;
  run.device = request_.device;
  run.dtype = info_.dtype;
  run.save = request.keep_payloads ? "all" : "none";
  run.threads = at::get_num_threads();
  run.seed = request.seed;
  run.grad = request.grad;
  run.health.unknown_ops = tables.unknown_ops;
}

/// An exception that is none of LibTorch's: the model's if it is a std::exception of an operator, else whoever asked
/// to stop.
void ModelSession::stop_reason(const std::exception_ptr& stop, Capture& capture, const std::string& place) {
  stopped_by_model_ = false;
  try {
    std::rethrow_exception(stop);
  } catch (const Interrupted& request) {
    auto& outcome = capture.run.outcome;
    outcome.status = "interrupted";
    outcome.origin = "interrupt";
    outcome.reason = request.what();
    outcome.boundary_label = place;
    outcome.n_ops_committed = static_cast<std::int64_t>(capture.events.size());
  } catch (const std::exception& error) {
    fail(capture, place, "RuntimeError", error.what());
    stopped_by_model_ = true;
  } catch (...) {
  }
}

}  // namespace tl::lt

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
#include "trace/trace.h"
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

/// `model.py:12:8 in forward`; empty where the file does not say.
std::string call_site_text(const Capture& capture, std::int32_t row) {
  if (row < 0) return {};
  const auto site = static_cast<std::size_t>(row);
  const auto& sites = capture.call_sites;
  if (sites.file[site] < 0) return {};
  std::string text(capture.strings[sites.file[site]]);
  if (sites.line[site] > 0) text += ":" + std::to_string(sites.line[site]);
  if (sites.column[site] >= 0) text += ":" + std::to_string(sites.column[site]);
  if (sites.function[site] >= 0) text += " in " + std::string(capture.strings[sites.function[site]]);
  return text;
}

/// The names before `=` of an argument template: `self=%0, other=[1, 2]` → self, other.
std::vector<std::string> argument_names(std::string_view arg_template) {
  std::vector<std::string> names;
  int depth = 0;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= arg_template.size(); ++i) {
    const char c = i < arg_template.size() ? arg_template[i] : ',';
    if (c == '"' && (i == 0 || arg_template[i - 1] != '\\')) quoted = !quoted;
    if (!quoted && (c == '[' || c == '(' || c == '{')) ++depth;
    if (!quoted && (c == ']' || c == ')' || c == '}')) --depth;
    const bool ends = i == arg_template.size() || (c == ',' && depth == 0 && !quoted);
    if (!ends) continue;
    const auto part = arg_template.substr(begin, i - begin);
    const auto equals = part.find('=');
    auto name = std::string(equals == std::string_view::npos ? std::string_view() : part.substr(0, equals));
    name.erase(0, name.find_first_not_of(' ') == std::string::npos ? name.size() : name.find_first_not_of(' '));
    names.push_back(std::move(name));
    begin = i + 1;
  }
  return names;
}

/// `mat1 f32[3,4]`, `other 2`; what is None is left out.
std::vector<std::string> operands_of(const Capture& capture, const Executor& executor) {
  std::vector<std::string> operands;
  if (executor.current() == nullptr) return operands;
  const auto code = capture.instructions.arg_template[executor.current()->row];
  const auto names = argument_names(code < 0 ? std::string_view() : capture.strings[code]);
  const auto& values = executor.failed_operands();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].isNone() || values[i].isObject()) continue;
    const auto name = i < names.size() && !names[i].empty() ? names[i] : "#" + std::to_string(i);
    operands.push_back(name + " " + text_of(values[i], 120));
  }
  return operands;
}

/// Where a run that raised stood, and what the operation was given.
void note_failure(Capture& capture, const Executor& executor, const Recorder& recorder) {
  auto& outcome = capture.run.outcome;
  outcome.module = recorder.module_address();
  outcome.operands = operands_of(capture, executor);
  if (!outcome.operands.empty()) outcome.frontier_labels = recorder.gathered_labels();
  if (executor.current() != nullptr) outcome.call_site = call_site_text(capture, executor.current()->call_site);
}

/// What a run left behind where it halted.
void note_halt(Capture& capture, Recorder& recorder) {
  const auto& site = recorder.watch()->halt_site();
  auto& outcome = capture.run.outcome;
  outcome.origin = "torchlens";
  outcome.n_ops_committed = num_operations(capture);
  const bool at_exit = site.module_call != ModuleCallId::kNone;
  outcome.boundary_kind = at_exit ? "module_exit" : "op";
  auto call = site.module_call;
  if (site.event != OpId::kNone) {
    const auto& event = capture.events[site.event];
    const auto label = raw_label(capture, site.event);
    outcome.boundary_label = outcome.reason = label;
    if (!at_exit) call = event.module_call;
    if (event.instruction != OpId::kNone)
      outcome.call_site = call_site_text(capture, capture.instructions.call_site[event.instruction]);
    if (!site.nonfinite) {
      outcome.frontier_labels = {label};
      if (capture.outputs.empty()) recorder.record_frontier(site.event);
    } else {
      const auto end = site.event + 1 < capture.events.size() ? capture.events[site.event + 1].edge_begin
                                                              : static_cast<std::uint32_t>(capture.edges.size());
      for (auto edge = event.edge_begin; edge < end; ++edge) {
        outcome.frontier_labels.push_back(raw_label(capture, capture.edges[edge].parent));
      }
    }
  }
  const auto module = static_cast<std::size_t>(capture.module_calls.module[call]);
  if (module != 0) outcome.module = capture.strings[capture.modules.address[module]];
  if (at_exit) {
    outcome.boundary_label = std::string(capture.strings[capture.modules.address[module]]) +
                             ":exit:" + std::to_string(capture.module_calls.call_index[call]);
    outcome.reason = outcome.boundary_label;
  }
  outcome.status = site.nonfinite ? "aborted_nonfinite" : "halted";
  if (site.nonfinite) outcome.reason = site.finding;
}

void fail(Capture& capture, const std::string& place, const std::string& type, const std::string& message) {
  auto& outcome = capture.run.outcome;
  outcome.status = "failed";
  outcome.origin = "user_op";
  outcome.error_type = type;
  outcome.reason = message;
  outcome.boundary_kind = "op";
  outcome.boundary_label = place;
  outcome.n_ops_committed = num_operations(capture);
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
  Recorder recorder(capture, model().modules, request, crash_slate());
  Executor executor(model().program, recorder, !request.witness);
  const StateGuard guard(request.grad);
  const VmapGuard vmap;
  at::manual_seed(static_cast<std::uint64_t>(request.seed));
  set_phase("running the model");
  used_ = true;
  const auto witness = request.witness ? std::make_unique<Witness>() : nullptr;
  const auto start = std::chrono::steady_clock::now();
  std::exception_ptr stop;
  // Also where values leave memory soon: small blocks that stay between large ones that go would tear the heap apart.
  const auto arena = request.keep_payloads ? std::make_unique<ArenaScope>() : nullptr;
  try {
    auto outputs = execute(executor, std::move(values));
    result.forward_seconds = seconds_since(start);
    result.outputs = std::move(outputs);
  } catch (const UserError& error) {
    fail(capture, place_of_run(executor, recorder), error.type, error.what());
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    const auto explained = explain(message);
    fail(capture, place_of_run(executor, recorder), "RuntimeError",
         message + (explained.empty() ? "" : " (" + explained + ")"));
  } catch (const torch::jit::JITException& error) {
    fail(capture, place_of_run(executor, recorder), error.getPythonClassName().value_or("Exception"),
         error.getOriginalMsg().value_or(error.what()));
  } catch (const Error&) {
    throw;
  } catch (const Halted&) {
    note_halt(capture, recorder);
    result.stop_fired = !recorder.watch()->halt_site().nonfinite;
  } catch (...) {
    stop = std::current_exception();
  }
  if (stop) stop_reason(stop, capture, place_of_run(executor, recorder));
  if (capture.run.outcome.status == "failed") note_failure(capture, executor, recorder);
  if (result.forward_seconds == 0) result.forward_seconds = seconds_since(start);
  if (witness) witness->finish(capture);
  recorder.finish();
  if (recorder.watch() != nullptr) result.undecided = recorder.watch()->undecided();
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
  run.save = request.keep_payloads && request.save.keep ? "all" : "none";
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
    outcome.n_ops_committed = num_operations(capture);
  } catch (const std::exception& error) {
    fail(capture, place, "RuntimeError", error.what());
    stopped_by_model_ = true;
  } catch (...) {
  }
}

std::string ModelSession::explain(const std::string& /*message*/) const { return {}; }

}  // namespace tl::lt

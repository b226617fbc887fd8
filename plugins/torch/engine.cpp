#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <dlfcn.h>
#include <signal.h>
#include <torch/csrc/jit/runtime/jit_exception.h>
#include <torch/csrc/jit/runtime/print_handler.h>
#include <torch/script.h>
#include <torch/version.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "bridge/tensor_bridge.h"
#include "core/build_id.h"
#include "core/error.h"
#include "engine/engine.h"
#include "engine/supervisor.h"
#include "executor/arena.h"
#include "executor/executor.h"
#include "torchscript/loader.h"
#include "witness/witness.h"

namespace tl::lt {
namespace {

std::atomic<CrashSlate*> crash_slate{nullptr};

void copy_text(char* to, std::size_t size, const char* from) {
  std::size_t i = 0;
  for (; i + 1 < size && from[i] != '\0'; ++i) to[i] = from[i];
  to[i] = '\0';
}

/// Writes down where the process is and dies by the signal. Touches plain memory only.
void on_fatal_signal(int number) {
  if (auto* slate = crash_slate.load(); slate != nullptr) {
    if (const auto* instruction = Executor::current_of_process(); instruction != nullptr) {
      copy_text(slate->where, sizeof slate->where, instruction->where.c_str());
    }
  }
  ::signal(number, SIG_DFL);
  ::raise(number);
}

void catch_fatal_signals() {
  static char stack[1 << 16];
  stack_t alternative{};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof stack;
  ::sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_handler = on_fatal_signal;
  action.sa_flags = SA_ONSTACK;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigaction(number, &action, nullptr);
}

void set_phase(const char* text) {
  if (auto* slate = crash_slate.load(); slate != nullptr) copy_text(slate->phase, sizeof slate->phase, text);
}

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

std::vector<OutputValue> outputs_of(const c10::IValue& value) {
  std::vector<OutputValue> outputs;
  for_each_leaf(value, "output", [&](const std::string& role, const c10::IValue& leaf) {
    if (leaf.isTensor() && leaf.toTensor().defined())
      outputs.push_back({role, make_tensor_ref(leaf.toTensor()), {}});
    else
      outputs.push_back({role, nullptr, text_of(leaf)});
  });
  return outputs;
}

std::string engine_version() { return std::string("LibTorch ") + TORCH_VERSION; }

class ScriptSession final : public Session {
 public:
  ScriptSession(ModelRequest request, std::unique_ptr<LoadedScript> script)
      : request_(std::move(request)), script_(std::move(script)), info_(script_->info) {}

  const ModelInfo& info() const override { return info_; }

  RunResult run(const RunRequest& request, Capture& capture) override {
    if (request.reload) reload_if_used();
    auto arguments = bind(request);
    prepare(capture, request);
    Recorder::Options options;
    options.keep_payloads = request.keep_payloads;
    options.progress = request.progress;
    options.slate = crash_slate.load();
    Recorder recorder(capture, script_->modules, options);
    Executor executor(script_->program, recorder, !request.witness);
    const StateGuard guard(request.grad);
    at::manual_seed(static_cast<std::uint64_t>(request.seed));
    set_phase("running the model");
    used_ = true;
    RunResult result;
    const auto witness = request.witness ? std::make_unique<Witness>() : nullptr;
    const auto start = std::chrono::steady_clock::now();
    std::exception_ptr stop;
    const auto arena = request.keep_payloads ? std::make_unique<ArenaScope>() : nullptr;
    try {
      const auto value = executor.run(script_->module._ivalue(), std::move(arguments), 0);
      result.forward_seconds = seconds_since(start);
      result.outputs = outputs_of(value);
    } catch (const UserError& error) {
      fail(capture, executor, error.type, error.what());
    } catch (const c10::Error& error) {
      fail(capture, executor, "RuntimeError", error.what_without_backtrace());
    } catch (const torch::jit::JITException& error) {
      fail(capture, executor, error.getPythonClassName().value_or("Exception"),
           error.getOriginalMsg().value_or(error.what()));
    } catch (const Error&) {
      throw;
    } catch (...) {
      stop = std::current_exception();
    }
    if (stop) stop_reason(stop, capture, executor);
    if (result.forward_seconds == 0) result.forward_seconds = seconds_since(start);
    if (witness) witness->finish(capture);
    recorder.finish();
    capture.run.forward_seconds = result.forward_seconds;
    state_dirty_ = recorder.state_dirty() || !capture.run.outcome.complete();
    if (stop && !stopped_by_model_) std::rethrow_exception(stop);
    return result;
  }

  RunResult run_plain(const RunRequest& request) override {
    if (request.reload) reload_if_used();
    auto arguments = bind(request);
    const StateGuard guard(request.grad);
    at::manual_seed(static_cast<std::uint64_t>(request.seed));
    used_ = true;
    RunResult result;
    const auto start = std::chrono::steady_clock::now();
    const auto value = info_.signature.method == "forward"
                           ? script_->module(arguments)
                           : script_->module.get_method(info_.signature.method)(arguments);
    result.forward_seconds = seconds_since(start);
    result.outputs = outputs_of(value);
    state_dirty_ = true;  // nobody watched what it wrote
    return result;
  }

 private:
  /// Every run starts from the file's state. A recorded run that wrote nothing leaves it as it was.
  void reload_if_used() {
    if (used_ && state_dirty_) script_ = load_script(request_, crash_slate.load());
    used_ = false;
  }

  std::vector<c10::IValue> bind(const RunRequest& request) const {
    const auto* method = script_->module.type()->findMethod(info_.signature.method);
    const auto& schema = method->getSchema();
    TL_CHECK(request.arguments.size() + 1 == schema.arguments().size(), "one value an argument");
    std::vector<c10::IValue> arguments;
    for (std::size_t i = 0; i < request.arguments.size(); ++i) {
      const auto& argument = schema.arguments()[i + 1];
      if (!request.given[i]) {
        TL_CHECK(argument.default_value().has_value(), "an argument that is not given has a default");
        arguments.push_back(*argument.default_value());
      } else {
        arguments.push_back(to_ivalue(request.arguments[i], argument.type(), argument.name()));
      }
    }
    return arguments;
  }

  void prepare(Capture& capture, const RunRequest& request) {
    const auto& tables = script_->tables;
    capture.strings = StringPool::extending(script_->shared_strings);
    capture.shapes = tables.shapes;
    capture.instructions = tables.instructions;
    capture.call_sites = tables.call_sites;
    capture.executions.assign(tables.instructions.op_name.size(), 0);
    capture.modules = tables.modules;
    capture.params = tables.params;
    capture.buffers = tables.buffers;
    for (auto& function : script_->program.functions) reset_caches(function->body);
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

  static void fail(Capture& capture, const Executor& executor, const std::string& type, const std::string& message) {
    auto& outcome = capture.run.outcome;
    outcome.status = "failed";
    outcome.origin = "user_op";
    outcome.error_type = type;
    outcome.reason = message;
    outcome.boundary_kind = "op";
    if (executor.current() != nullptr) outcome.boundary_label = executor.current()->where;
    outcome.n_ops_committed = static_cast<std::int64_t>(capture.events.size());
  }

  /// An exception that is none of LibTorch's: the model's if it is a std::exception of an operator, else whoever asked
  /// to stop.
  void stop_reason(const std::exception_ptr& stop, Capture& capture, const Executor& executor) {
    stopped_by_model_ = false;
    try {
      std::rethrow_exception(stop);
    } catch (const Interrupted& request) {
      auto& outcome = capture.run.outcome;
      outcome.status = "interrupted";
      outcome.origin = "interrupt";
      outcome.reason = request.what();
      if (executor.current() != nullptr) outcome.boundary_label = executor.current()->where;
      outcome.n_ops_committed = static_cast<std::int64_t>(capture.events.size());
    } catch (const std::exception& error) {
      fail(capture, executor, "RuntimeError", error.what());
      stopped_by_model_ = true;
    } catch (...) {
    }
  }

  ModelRequest request_;
  std::unique_ptr<LoadedScript> script_;
  ModelInfo info_;
  bool used_ = false;
  bool state_dirty_ = true;
  bool stopped_by_model_ = false;
};

class TorchEngine final : public Engine {
 public:
  std::string version() const override { return engine_version(); }

  std::unique_ptr<Session> load(const ModelRequest& request) override {
    if (request.threads > 0) at::set_num_threads(request.threads);
    torch::jit::setPrintHandler([](const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); });
    for (const auto& library : request.libraries) {
      if (::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
        throw Error(ErrorCode::kLibraryNotLoaded, std::string("cannot open ") + library + ": " + ::dlerror());
      }
    }
    auto script = load_script(request, crash_slate.load());
    return std::make_unique<ScriptSession>(request, std::move(script));
  }

  std::vector<std::string> operator_names() const override { return known_operator_names(); }

  void set_crash_slate(CrashSlate* slate) override {
    crash_slate.store(slate);
    if (slate != nullptr) catch_fatal_signals();
  }
};

}  // namespace
}  // namespace tl::lt

extern "C" {
__attribute__((visibility("default"))) const char* torchlens_engine_build_id() { return tl::build_id(); }
__attribute__((visibility("default"))) tl::Engine* torchlens_engine_open() { return new tl::lt::TorchEngine(); }
}

#include "session.h"

#include <ATen/ATen.h>

#include "core/error.h"
#include "crash_slate.h"
#include "engine/exported_symbols.h"
#include "exported/bare_run.h"
#include "exported/input_checks.h"
#include "exported/loader.h"

namespace tl::lt {
namespace {

class ExportedSession final : public ModelSession {
 public:
  explicit ExportedSession(const ModelRequest& request)
      : ModelSession(request), loaded_(load_exported(request_, crash_slate())) {
    info_ = loaded_->info;
  }

 protected:
  LoadedModel& model() override { return *loaded_; }

  void reload() override {
    loaded_->state = loaded_->maker->make();
    loaded_->modules = std::move(loaded_->state.modules);
  }

  Values bind(const RunRequest& request, std::vector<std::string>& notes) override {
    const auto& interface = loaded_->interface;
    TL_CHECK(request.arguments.size() == interface.arguments.size(), "one value an argument");
    notes = loaded_->notes;
    std::vector<const InputValue*> leaves;
    for (std::size_t i = 0; i < request.arguments.size(); ++i) {
      if (request.given[i]) {
        flatten_argument(request.arguments[i], interface.arguments[i], interface.signature.arguments[i].name, leaves);
      } else {
        leaves.insert(leaves.end(), interface.arguments[i].num_leaves, nullptr);  // the file fixes its value
      }
    }
    return checked_inputs(loaded_->source, interface, leaves, c10::Device(request_.device), notes);
  }

  std::vector<OutputValue> execute(Executor& executor, Values values) override {
    return named(executor.run_flat(inputs(std::move(values)), loaded_->interface.output_roles, 0));
  }

  std::vector<OutputValue> execute_plain(Values values) override {
    auto flat = inputs(std::move(values));
    Values arguments;
    for (auto& input : flat) arguments.push_back(std::move(input.value));
    return named(run_bare(loaded_->program, std::move(arguments)));
  }

  std::string explain(const std::string& message) const override {
    return explain_symbols(loaded_->source, loaded_->interface, message);
  }

 private:
  std::vector<Executor::FlatInput> inputs(Values values) const {
    const auto& state = loaded_->state;
    std::vector<Executor::FlatInput> inputs(state.values.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = {state.values[i], {}, state.provs[i]};
    const auto& leaves = loaded_->interface.leaves;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      inputs[leaves[i].input] = {std::move(values[i]), "input." + leaves[i].path, {}};
    }
    return inputs;
  }

  std::vector<OutputValue> named(const Values& values) const {
    std::vector<OutputValue> outputs;
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (auto& output : outputs_of(values[i], loaded_->interface.output_roles[i])) {
        outputs.push_back(std::move(output));
      }
    }
    return outputs;
  }

  std::unique_ptr<LoadedExport> loaded_;
};

}  // namespace

std::unique_ptr<Session> make_exported_session(const ModelRequest& request) {
  return std::make_unique<ExportedSession>(request);
}

}  // namespace tl::lt

#include "session.h"

#include <torch/script.h>

#include "bridge/tensor_bridge.h"
#include "core/error.h"
#include "crash_slate.h"
#include "torchscript/loader.h"

namespace tl::lt {
namespace {

class ScriptSession final : public ModelSession {
 public:
  explicit ScriptSession(const ModelRequest& request) : ModelSession(request) {
    reload();
    info_ = script_->info;
  }

 protected:
  LoadedModel& model() override { return *script_; }
  void reload() override { script_ = load_script(request_, crash_slate()); }

  Values bind(const RunRequest& request, std::vector<std::string>&) override {
    const auto* method = script_->module.type()->findMethod(info_.signature.method);
    const auto& schema = method->getSchema();
    TL_CHECK(request.arguments.size() + 1 == schema.arguments().size(), "one value an argument");
    Values arguments;
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

  std::vector<OutputValue> execute(Executor& executor, Values values) override {
    return outputs_of(executor.run(script_->module._ivalue(), std::move(values), 0), "output");
  }

  std::vector<OutputValue> execute_plain(Values values) override {
    const auto& method = info_.signature.method;
    return outputs_of(method == "forward" ? script_->module(std::move(values))
                                          : script_->module.get_method(method)(std::move(values)),
                      "output");
  }

 private:
  std::unique_ptr<LoadedScript> script_;
};

}  // namespace

std::unique_ptr<Session> make_script_session(const ModelRequest& request) {
  return std::make_unique<ScriptSession>(request);
}

}  // namespace tl::lt

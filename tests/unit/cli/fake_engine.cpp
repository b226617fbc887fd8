#include "fake_engine.h"

#include <signal.h>

#include <cstring>

#include "engine/supervisor.h"
#include "support/trace_fixtures.h"

namespace tl::test {
namespace {

constexpr const char* kRun =
    "trace 1\n"
    "call_site s0 file=m.py line=7 column=12 column_end=22 function=forward\n"
    "call_site s1 file=m.py line=9 column=16 column_end=29 function=forward\n"
    "call_site s2 file=m.py line=10 column=15 column_end=20 function=forward\n"
    "module self class_name=Net\n"
    "module fc class_name=Linear qualified_class=torch.nn.modules.linear.Linear parent=self\n"
    "context c0 module=self\n"
    "context c1 module=fc\n"
    "instruction lin op_name=aten::linear func_name=linear layer_type=linear call_site=s0\n"
    "instruction rel op_name=aten::relu func_name=relu layer_type=relu call_site=s1\n"
    "instruction add op_name=aten::add overload=Tensor func_name=__add__ layer_type=add call_site=s2\n"
    "param fc.weight module=fc dtype=f32 shape=[3,4] bytes=48\n"
    "call self:1 first_op=a end_op=end\n"
    "call fc:1 parent_call=self:1 first_op=b end_op=c output_op=b\n"
    "op a input out=f32[1,4] address=input.x\n"
    "op b lin out=f32[1,3] parents=a@0 call=fc:1 context=c1 payload=#0\n"
    "op c rel out=f32[1,3] parents=b@0 payload=#1\n"
    "op d rel out=f32[1,3] parents=c@0 payload=#1\n"
    "op e add out=f32[1,3] parents=d@0 payload=#2\n"
    "op f output out=f32[1,3] parents=e@0 address=output payload=#2\n";

HostTensor row_of(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return make_host_tensor(DType::kF32, {1, static_cast<std::int64_t>(values.size())}, std::move(bytes));
}

class Held : public TensorRef {
 public:
  explicit Held(HostTensor tensor) : tensor_(std::move(tensor)) {}
  TensorKind kind() const override { return TensorKind::kStrided; }
  std::vector<TensorPart> to_host() const override { return {{"", tensor_}}; }
  const HostTensor& tensor() const { return tensor_; }

 private:
  HostTensor tensor_;
};

class Store : public PayloadSource {
 public:
  std::size_t size() const override { return held_.size(); }
  PayloadFacts facts(PayloadId id) const override {
    const auto& tensor = held_[id.index()]->tensor();
    return {TensorKind::kStrided, tensor.dtype, id.value + 1, 0, tensor.sizes, tensor.strides};
  }
  TensorRefPtr tensor(PayloadId id) const override { return held_[id.index()]; }

 private:
  std::vector<std::shared_ptr<const Held>> held_ = {std::make_shared<Held>(row_of({-1.5F, 0.25F, 2})),
                                                    std::make_shared<Held>(row_of({0, 0.25F, 2})),
                                                    std::make_shared<Held>(row_of({1, 1.25F, 3}))};
};

ModelInfo fake_info() {
  ModelInfo info;
  info.kind = "torchscript script";
  info.class_name = "Net";
  info.mode = "eval";
  info.dtype = "f32";
  info.methods = {"forward"};
  info.signature.method = "forward";
  info.signature.text = "forward(Tensor x, int times=2) -> Tensor";
  SignatureArgument x;
  x.name = "x";
  x.type.kind = TypeNode::Kind::kTensor;
  x.type.text = "Tensor";
  SignatureArgument times;
  times.name = "times";
  times.type.kind = TypeNode::Kind::kInt;
  times.type.text = "int";
  times.has_default = true;
  times.default_text = "2";
  info.signature.arguments = {x, times};
  return info;
}

class FakeSession : public Session {
 public:
  FakeSession(FakeEngine& engine, FakeEnd end) : engine_(engine), end_(end) {}
  const ModelInfo& info() const override { return info_; }

  RunResult run(const RunRequest& request, Capture& capture) override {
    engine_.ran = request;
    capture = capture_from_text(kRun);
    show_values(request, capture);
    if (request.keep_payloads) {
      capture.payloads = std::make_shared<Store>();
    } else {
      for (std::size_t i = 0; i < capture.events.size(); ++i) capture.events[i].payload = PayloadId::kNone;
      for (auto& output : capture.outputs) output.payload = PayloadId::kNone;
    }
    capture.run.health.operator_calls = capture.run.health.recorded_calls = 4;
    RunResult result;
    result.undecided = engine_.undecided;
    if (end_ == FakeEnd::kIsInterrupted) {
      capture.outputs.clear();
      throw Interrupted(SIGINT, false);
    }
    if (end_ == FakeEnd::kHalts || end_ == FakeEnd::kIsNonFinite) {
      auto& outcome = capture.run.outcome;
      outcome.origin = "torchlens";
      outcome.boundary_kind = "op";
      outcome.boundary_label = "linear_1_2_raw";
      outcome.reason = outcome.boundary_label;
      outcome.module = "fc";
      outcome.call_site = "m.py:7:12 in forward";
      outcome.n_ops_committed = 2;
      outcome.status = "halted";
      result.stop_fired = true;
      if (end_ == FakeEnd::kHalts) return result;
      outcome.status = "aborted_nonfinite";
      outcome.reason = "1 NaN of 3 elements, first at [0,1]";
      outcome.frontier_labels = {"input_1_1_raw"};
      return result;
    }
    if (end_ == FakeEnd::kRaises) {
      capture.outputs.clear();
      auto& outcome = capture.run.outcome;
      outcome.status = "failed";
      outcome.origin = "user_op";
      outcome.error_type = "ValueError";
      outcome.reason = "x is too small\x1b[2J";
      outcome.boundary_kind = "op";
      outcome.boundary_label = "aten::add (m.py:10)";
      outcome.n_ops_committed = 4;
      outcome.operands = {"self f32[1,3]", "other 1"};
      outcome.frontier_labels = {"relu_2_4_raw"};
      return result;
    }
    result.outputs.push_back({"output", std::make_shared<Held>(row_of({1, 1.25F, 3})), {}});
    result.outputs.push_back({"output.times", nullptr, "2"});
    return result;
  }
  RunResult run_plain(const RunRequest&) override { return {}; }

 private:
  /// Every value that the text names as a payload.
  static void show_values(const RunRequest& request, const Capture& capture) {
    const Store store;
    for (std::uint32_t event = 0; request.observer != nullptr && event < capture.events.size(); ++event) {
      const auto payload = capture.events[event].payload;
      if (payload == PayloadId::kNone) continue;
      request.observer->on_value(event, store.tensor(PayloadId{payload})->to_host()[0].tensor);
    }
  }

  FakeEngine& engine_;
  FakeEnd end_;
  ModelInfo info_ = fake_info();
};

}  // namespace

std::unique_ptr<Session> FakeEngine::load(const ModelRequest& request) {
  requested = request;
  return std::make_unique<FakeSession>(*this, end_);
}

}  // namespace tl::test

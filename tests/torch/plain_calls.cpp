#include "torch/plain_calls.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/script.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <unordered_set>

#include "bridge/tensor_bridge.h"
#include "executor/batched_view.h"

namespace torch::jit {
void setGraphExecutorOptimize(bool optimize);
bool getGraphExecutorOptimize();
}  // namespace torch::jit

namespace tl::test {

namespace prim = c10::prim;
namespace attr = c10::attr;

namespace {

thread_local int depth = 0;
thread_local CallObserver* observer = nullptr;
thread_local std::function<void()> after_call;
thread_local std::vector<std::int64_t>* counters = nullptr;

const c10::DispatchKeySet kVmapKeys({c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                                     c10::DispatchKey::FuncTorchDynamicLayerBackMode});

/// Under vmap the copy is of the tensor inside, batch dimensions and all.
TensorRefPtr copy_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return TensorRefPtr();
  const c10::impl::ExcludeDispatchKeyGuard outside(kVmapKeys);
  return lt::make_tensor_ref((lt::is_batched(tensor) ? lt::batched_view(tensor).first : tensor).clone());
}

PlainReturn return_of(const c10::IValue& value, bool keep) {
  PlainReturn result;
  if (value.isTensor()) {
    result.is_tensor = true;
    if (keep)
      result.tensors.push_back(copy_of(value.toTensor()));
    else
      result.tensors.emplace_back();
  } else if (value.isTensorList() ||
             (value.isList() && value.toListRef().size() > 0 && value.toListRef()[0].isTensor())) {
    result.is_tensor = true;
    for (const auto& element : value.toListRef()) {
      result.tensors.push_back(keep && element.isTensor() ? copy_of(element.toTensor()) : TensorRefPtr());
    }
  } else {
    result.is_host = value.isScalar() || value.isString() || value.isList() || value.isDevice();
  }
  return result;
}

}  // namespace

struct CallObserverHooks {
  static std::unique_ptr<at::ObserverContext> start(const at::RecordFunction&) {
    ++depth;
    return nullptr;
  }
  static void end(const at::RecordFunction& function, at::ObserverContext*) {
    if (--depth != 0 || observer == nullptr) return;
    const at::DisableRecordFunctionGuard quiet;
    PlainCall call;
    if (const auto name = function.operator_name()) {
      call.name = name->name;
      call.overload = name->overload_name;
    } else {
      call.name = function.name();
    }
    // A boxed call hands over the whole stack: what it returned is on top.
    const auto& outputs = function.outputs();
    const auto count = std::min(outputs.size(), function.num_outputs());
    for (auto i = outputs.size() - count; i < outputs.size(); ++i) {
      call.returns.push_back(return_of(outputs[i], observer->keep_outputs_));
    }
    observer->calls_.push_back(std::move(call));
    if (after_call) after_call();
  }
};

bool PlainCall::yields_nothing() const {
  return std::ranges::all_of(
      returns, [](const auto& value) { return value.is_tensor ? value.tensors.empty() : !value.is_host; });
}

namespace {

std::size_t count_in(const InputValue& value) {
  std::size_t count = 0;
  if (std::holds_alternative<HostTensor>(value.data)) return 1;
  if (const auto* list = std::get_if<InputValue::List>(&value.data)) {
    for (const auto& element : *list) count += count_in(element);
  } else if (const auto* tuple = std::get_if<InputValue::Tuple>(&value.data)) {
    for (const auto& element : tuple->elements) count += count_in(element);
  } else if (const auto* dict = std::get_if<InputValue::Dict>(&value.data)) {
    for (const auto& entry : *dict) count += count_in(entry.second);
  }
  return count;
}

}  // namespace

std::size_t count_tensors(const RunRequest& request) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < request.arguments.size(); ++i) {
    if (request.given[i]) count += count_in(request.arguments[i]);
  }
  return count;
}

CallObserver::CallObserver(bool keep_outputs) : keep_outputs_(keep_outputs) {
  depth = 0;
  observer = this;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(CallObserverHooks::start, CallObserverHooks::end)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

CallObserver::~CallObserver() {
  at::removeCallback(handle_);
  observer = nullptr;
}

namespace {

const torch::jit::RegisterOperators kCounter({torch::jit::Operator(
    "tltest::count(int node) -> ()",
    [](torch::jit::Stack& stack) {
      const auto node = torch::jit::pop(stack).toInt();
      if (counters != nullptr) ++(*counters)[static_cast<std::size_t>(node)];
    },
    c10::AliasAnalysisKind::CONSERVATIVE)});

bool holds_tensor(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::TensorType) return true;
  if (type.kind() == c10::TypeKind::ClassType) return false;
  return std::ranges::any_of(type.containedTypes(), [](const auto& child) { return holds_tensor(*child); });
}

bool is_host_type(const c10::Type& type) {
  using Kind = c10::TypeKind;
  static const std::unordered_set<int> kinds = {
      static_cast<int>(Kind::IntType),      static_cast<int>(Kind::FloatType),  static_cast<int>(Kind::BoolType),
      static_cast<int>(Kind::StringType),   static_cast<int>(Kind::NumberType), static_cast<int>(Kind::ComplexType),
      static_cast<int>(Kind::DeviceObjType)};
  if (type.kind() == Kind::OptionalType || type.kind() == Kind::ListType)
    return is_host_type(*type.containedTypes()[0]);
  return kinds.contains(static_cast<int>(type.kind()));
}

/// Walks every graph that a method reaches, and numbers the nodes.
class GraphWalk {
 public:
  GraphWalk(PlainRun& run, torch::jit::Module& module, bool insert_counters)
      : run_(run), module_(module), insert_counters_(insert_counters) {}

  void walk_from(const std::string& method) {
    const auto type = module_.type();
    function(type->getMethod(method));
    for (auto* hook : type->getForwardPreHooks()) function(*hook);
    for (auto* hook : type->getForwardHooks()) function(*hook);
  }

 private:
  void function(const torch::jit::Function& function) {
    if (!function.isGraphFunction() || !seen_.insert(&function).second) return;
    graph(*torch::jit::toGraphFunction(const_cast<torch::jit::Function&>(function)).graph());
  }

  void graph(torch::jit::Graph& graph) { block(graph, *graph.block()); }

  void block(torch::jit::Graph& graph, torch::jit::Block& block) {
    const std::vector<torch::jit::Node*> nodes(block.nodes().begin(), block.nodes().end());
    for (auto* node : nodes) {
      if (node->kind() == prim::Constant) continue;
      add(*node);
      if (insert_counters_) count(graph, *node, run_.nodes.size() - 1);
      for (auto* nested : node->blocks()) this->block(graph, *nested);
      callees(*node);
    }
  }

  void callees(const torch::jit::Node& node) {
    if (node.kind() == prim::fork) {
      graph(*node.g(attr::Subgraph));
    } else if (node.kind() == prim::CallFunction) {
      function(*node.input(0)->type()->expectRef<c10::FunctionType>().function());
    } else if (node.kind() == prim::CallMethod) {
      if (const auto type = node.input(0)->type()->cast<c10::ClassType>()) {
        function(type->getMethod(node.s(attr::name)));
      } else {
        run_.interface_calls = true;
        named(node.s(attr::name));
      }
    } else if (node.kind() == prim::Enter || node.kind() == prim::Exit) {
      const auto type = node.input(0)->type()->cast<c10::ClassType>();
      if (type) function(type->getMethod(node.kind() == prim::Enter ? "__enter__" : "__exit__"));
    }
  }

  void named(const std::string& name) {
    for (auto* candidate : module_._ivalue()->compilation_unit()->get_functions()) {
      if (candidate->name() == name && !candidate->qualname().prefix().empty()) function(*candidate);
    }
  }

  void add(const torch::jit::Node& node) {
    PlainNode out;
    out.name = node.kind().toQualString();
    static const std::unordered_set<std::string> kOwn = {
        "prim::GetAttr",        "prim::SetAttr",        "prim::CallMethod",
        "prim::CallFunction",   "prim::fork",           "prim::If",
        "prim::Loop",           "prim::ListConstruct",  "prim::ListUnpack",
        "prim::TupleConstruct", "prim::TupleUnpack",    "prim::TupleIndex",
        "prim::TupleSlice",     "prim::DictConstruct",  "prim::CreateObject",
        "prim::isinstance",     "prim::unchecked_cast", "prim::Uninitialized",
        "prim::RaiseException", "prim::Enter",          "prim::Exit",
        "aten::wait",           "aten::warn",           "prim::ModuleContainerIndex"};
    const auto* op = kOwn.contains(out.name) ? nullptr : node.maybeOperator();
    if (op != nullptr) {
      out.is_operator = true;
      out.is_dispatched = op->isC10Op();
      out.overload = op->schema().overload_name();
    }
    for (const auto* output : node.outputs()) {
      if (is_host_type(*output->type()))
        ++out.host_outputs;
      else if (holds_tensor(*output->type()))
        ++out.tensor_outputs;
    }
    run_.nodes.push_back(std::move(out));
  }

  static void count(torch::jit::Graph& graph, torch::jit::Node& node, std::size_t number) {
    const torch::jit::WithInsertPoint here(&node);
    auto* value = graph.insertConstant(static_cast<std::int64_t>(number));
    graph.insertNode(graph.create(c10::Symbol::fromQualString("tltest::count"), {value}, 0));
  }

  PlainRun& run_;
  torch::jit::Module& module_;
  bool insert_counters_;
  std::unordered_set<const torch::jit::Function*> seen_;
};

/// Finds out, after every call, which buffers hold other bytes than before.
class BufferWatch {
 public:
  BufferWatch(PlainRun& run, const torch::jit::Module& module) : run_(run) {
    find(module._ivalue(), "");
    for (const auto& slot : slots_) last_.push_back(copy(slot));
  }

  void look() {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const auto now = tensor_of(slots_[i]);
      if (!now.defined() || same(now, last_[i])) continue;
      last_[i] = copy(slots_[i]);
      run_.buffer_writes.push_back({slots_[i].address, lt::make_tensor_ref(last_[i])});
    }
  }

 private:
  struct Slot {
    c10::intrusive_ptr<c10::ivalue::Object> object;
    std::size_t slot;
    std::string address;
  };

  void find(const c10::intrusive_ptr<c10::ivalue::Object>& object, const std::string& prefix) {
    if (!seen_.insert(object.get()).second) return;
    const auto type = object->type();
    for (std::size_t i = 0; i < type->numAttributes(); ++i) {
      if (type->is_buffer(i) && object->getSlot(i).isTensor())
        slots_.push_back({object, i, prefix + type->getAttributeName(i)});
    }
    for (std::size_t i = 0; i < type->numAttributes(); ++i) {
      if (type->getAttribute(i)->is_module() && object->getSlot(i).isObject()) {
        find(object->getSlot(i).toObject(), prefix + type->getAttributeName(i) + ".");
      }
    }
  }

  static at::Tensor tensor_of(const Slot& slot) {
    const auto& value = slot.object->getSlot(slot.slot);
    return value.isTensor() ? value.toTensor() : at::Tensor();
  }
  static at::Tensor copy(const Slot& slot) {
    const auto tensor = tensor_of(slot);
    return tensor.defined() ? tensor.clone() : tensor;
  }
  static bool same(const at::Tensor& a, const at::Tensor& b) {
    if (!b.defined() || a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
    if (a.layout() != at::kStrided || a.is_quantized()) return true;
    const auto left = a.contiguous();
    const auto right = b.contiguous();
    return left.numel() == 0 || std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
  }

  PlainRun& run_;
  std::vector<Slot> slots_;
  std::vector<at::Tensor> last_;
  std::unordered_set<const void*> seen_;
};

std::vector<c10::IValue> arguments_for(const c10::FunctionSchema& schema, const RunRequest& request) {
  std::vector<c10::IValue> arguments;
  for (std::size_t i = 0; i < request.arguments.size(); ++i) {
    const auto& argument = schema.arguments()[i + 1];
    if (request.given[i])
      arguments.push_back(lt::to_ivalue(request.arguments[i], argument.type(), argument.name()));
    else
      arguments.push_back(argument.default_value().value());
  }
  return arguments;
}

bool has_fork(const PlainRun& run) {
  return std::ranges::any_of(run.nodes, [](const auto& node) { return node.name == "prim::fork"; });
}

void run_method(torch::jit::Module& module, std::vector<c10::IValue> arguments, bool inline_forks) {
  if (!inline_forks) {
    module(std::move(arguments));
    return;
  }
  auto future = module.get_method("forward").run_async(std::move(arguments), torch::jit::Kwargs(),
                                                       [](std::function<void()> body) { body(); });
  future->wait();
  future->value();
}

}  // namespace

PlainRun run_observed(const std::filesystem::path& model, const RunRequest& request, const PlainOptions& options) {
  const bool optimize = torch::jit::getGraphExecutorOptimize();
  torch::jit::setGraphExecutorOptimize(false);
  PlainRun run;
  try {
    auto module = torch::jit::load(model.string(), c10::Device("cpu"));
    GraphWalk(run, module, options.count_nodes).walk_from("forward");
    auto arguments = arguments_for(module.get_method("forward").function().getSchema(), request);
    std::vector<std::int64_t> counts(run.nodes.size(), 0);
    counters = &counts;
    const c10::AutoGradMode grad(request.grad);
    at::manual_seed(static_cast<std::uint64_t>(request.seed));
    BufferWatch buffers(run, module);
    if (options.keep_outputs) after_call = [&] { buffers.look(); };
    {
      CallObserver watch(options.keep_outputs);
      try {
        run_method(module, std::move(arguments), has_fork(run));
      } catch (const std::exception& error) {
        run.error = error.what();
      }
      run.calls = watch.calls();
    }
    if (options.keep_outputs) buffers.look();
    for (std::size_t i = 0; i < counts.size(); ++i) run.nodes[i].executed = counts[i];
  } catch (...) {
    after_call = nullptr;
    counters = nullptr;
    torch::jit::setGraphExecutorOptimize(optimize);
    throw;
  }
  after_call = nullptr;
  counters = nullptr;
  torch::jit::setGraphExecutorOptimize(optimize);
  return run;
}

}  // namespace tl::test

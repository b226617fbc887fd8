#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace tl::test {

/// One value that an observed call returned.
struct PlainReturn {
  bool is_tensor = false;             ///< a tensor or a list of tensors; else a host value, an object or None
  bool is_host = false;               ///< a number, a string, a list of such
  std::vector<TensorRefPtr> tensors;  ///< copies made when the call ended; null for an undefined tensor
};

/// One top-level call as LibTorch's RecordFunction sees it.
struct PlainCall {
  std::string name;      ///< qualified, without overload
  std::string overload;  ///< empty for none
  std::vector<PlainReturn> returns;
  std::string full_name() const { return overload.empty() ? name : name + "." + overload; }
  /// True if nothing of it can be a record: no tensor and no host value.
  bool yields_nothing() const;
};

/// A buffer that was found changed after a call.
struct PlainBufferWrite {
  std::string address;
  TensorRefPtr value;
};

/// One node of an un-inlined graph that the method can reach, and how often LibTorch's interpreter came by.
struct PlainNode {
  std::string name;  ///< kind of the node: aten::add, prim::If
  std::string overload;
  bool is_operator = false;    ///< runs an operator; else the interpreter does it itself
  bool is_dispatched = false;  ///< that operator is one of the dispatcher
  std::size_t tensor_outputs = 0;
  std::size_t host_outputs = 0;
  std::int64_t executed = 0;
  std::string full_name() const { return overload.empty() ? name : name + "." + overload; }
};

struct PlainRun {
  std::vector<PlainCall> calls;
  std::vector<PlainBufferWrite> buffer_writes;
  std::vector<PlainNode> nodes;  ///< without constants
  bool interface_calls = false;  ///< some callee is known at run time only
  std::string error;             ///< what LibTorch's interpreter raised, empty if it did not
};

struct PlainOptions {
  bool keep_outputs = false;  ///< copy what every call returned
  bool count_nodes = false;   ///< put a counter before every node
};

/// Runs `forward` of a fresh copy with LibTorch's interpreter, the optimisation of graphs switched off, forked bodies
/// run where they are forked, and observes it from outside.
PlainRun run_observed(const std::filesystem::path& model, const RunRequest& request, const PlainOptions& options);

/// Tensors among the arguments of a request.
std::size_t count_tensors(const RunRequest& request);

/// Observes the top-level calls of this thread while it lives.
class CallObserver {
 public:
  explicit CallObserver(bool keep_outputs);
  ~CallObserver();
  CallObserver(const CallObserver&) = delete;
  CallObserver& operator=(const CallObserver&) = delete;
  const std::vector<PlainCall>& calls() const { return calls_; }

 private:
  friend struct CallObserverHooks;
  std::uint64_t handle_ = 0;
  bool keep_outputs_;
  std::vector<PlainCall> calls_;
};

}  // namespace tl::test

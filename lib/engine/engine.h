#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/input_value.h"
#include "trace/capture.h"
#include "trace/op_policy.h"
#include "trace/payload_sink.h"
#include "trace/value_observer.h"

namespace tl {

/// Structure of an argument's or return value's type, as far as binding inputs needs it.
struct TypeNode {
  enum class Kind : std::uint8_t {
    kTensor,
    kInt,
    kFloat,
    kBool,
    kString,
    kComplex,
    kNumber,
    kDevice,
    kNone,
    kOptional,    ///< children[0]
    kList,        ///< children[0]
    kTuple,       ///< children in order
    kNamedTuple,  ///< children in order, field_names
    kDict,        ///< children[0] key, children[1] value
    kOther,       ///< enum, class, union: by position only, refused as an input unless it has a default
  };
  Kind kind = Kind::kOther;
  std::string text;  ///< as in the signature: Dict(str, Tensor)
  std::vector<TypeNode> children;
  std::vector<std::string> field_names;
  std::shared_ptr<const InputValue> fixed;  ///< the only value that the file takes here: need not be given
};

/// What a file states of a tensor argument (traced inputs, `.pt2`): nullopt where it states nothing.
struct TensorExpectation {
  std::optional<DType> dtype;
  std::optional<std::vector<std::int64_t>> sizes;  ///< of the example; -1 for a size that may vary
};

/// One argument of the method that will run, `self` left out.
struct SignatureArgument {
  std::string name;
  TypeNode type;
  bool has_default = false;
  std::string default_text;
  bool keyword_only = false;
  TensorExpectation expected;
};

struct Signature {
  std::string method;
  std::vector<SignatureArgument> arguments;
  std::string text;  ///< forward(Tensor x, int times=3) -> Tensor
};

/// How to load a model.
struct ModelRequest {
  std::string path;
  std::string model;                     ///< --model: a program of a file that holds several; empty: the only one
  std::vector<std::string> libraries;    ///< --load-library
  std::vector<std::string> allowed_ops;  ///< --allow-op
  std::string method = "forward";
  std::string device = "cpu";
  enum class Mode : std::uint8_t { kAsSaved, kTrain, kEval } mode = Mode::kAsSaved;
  int threads = 0;  ///< 0: LibTorch's default
};

/// Facts of a loaded model.
struct ModelInfo {
  std::string kind;        ///< torchscript script, torchscript trace, exported program
  std::string class_name;  ///< root class, package and mangling stripped
  std::string mode;        ///< eval, train, mixed, baked
  std::string dtype;       ///< element type of most parameters, short name; empty without parameters
  Signature signature;
  std::vector<std::string> methods;
  std::vector<InputValue> stored_arguments;  ///< the example call in the file, one an argument; empty where it has none
  std::optional<Error> stored_refusal;       ///< why the example call cannot be read, where there is one
};

/// What becomes of the values that a run produces. What is pointed to is the caller's and outlives the run.
struct SaveRules {
  bool keep = true;            ///< false: no value is kept in full
  OpPolicy* policy = nullptr;  ///< which values to keep; null: all of them
  std::int64_t samples = 0;    ///< of values that are not kept: this many elements at fixed positions (tensor/sample.h)
  std::size_t budget_bytes = 0;  ///< memory that kept values may take; 0: no bound
  /// Past the budget: true to go on with samples and with inputs and outputs of module calls while they fit, false to
  /// throw Error(kBudgetExceeded).
  bool weaken = false;
  ValueObserver* when_weakened = nullptr;  ///< then sees all values from the first on, as RunRequest::observer would
  PayloadSink* sink = nullptr;             ///< values go there while the model runs and leave memory
  bool sink_inline = false;                ///< call the sink right away, from the thread that runs the model
  std::size_t queue_bytes = std::size_t{256} << 20;  ///< values that wait for the sink; one larger value waits alone
};

/// What to run and record.
struct RunRequest {
  std::vector<InputValue> arguments;  ///< one an argument of the signature, in order
  std::vector<bool> given;            ///< false: take the default
  std::int64_t seed = 0;
  bool grad = false;
  bool keep_payloads = true;  ///< false: neither values nor samples, whatever `save` says
  SaveRules save;
  OpPolicy* stop_after = nullptr;     ///< the run halts at the first Op or module exit that it says yes to
  ValueObserver* observer = nullptr;  ///< sees every value; nothing is done for it when null
  bool raise_on_nonfinite = false;    ///< stop at the first Op that makes NaN or an infinity out of finite values
  /// Called for every event right after it was recorded (`--echo`).
  std::function<void(const Capture& capture, std::uint32_t event)> narrate;
  bool record = true;    ///< false: run without recording (benchmarks)
  bool witness = false;  ///< run the dispatcher census beside the capture
  bool reload = true;    ///< start from the file's state; false: from wherever the run before left it (benchmarks)
  /// Called between operations about every 1024 events with the count so far; throwing stops the run.
  std::function<void(std::size_t events)> progress;
};

/// A tensor or host value that the model returned, by structural path.
struct OutputValue {
  std::string role;
  TensorRefPtr tensor;  ///< null for host values
  std::string scalar;
};

struct RunResult {
  std::vector<OutputValue> outputs;  ///< leaves in structural order; empty when the model raised
  double forward_seconds = 0;
  std::vector<std::string> notes;        ///< what was done to the inputs: laid out anew as the file recorded them …
  std::vector<std::uint32_t> undecided;  ///< events that are kept although the policy could not tell yet, ascending
  bool stop_fired = false;               ///< stop_after said yes
};

/// Where the child is, for the parent that reports a crash. Written by the engine, read after a signal; plain memory
/// that both processes share.
struct CrashSlate {
  volatile std::uint64_t events = 0;
  char phase[64] = {};   ///< loading, running, postprocess, writing
  char where[448] = {};  ///< archive entry or operator and source line; filled by the engine's signal handler
};

/// One loaded model, ready to run.
class Session {
 public:
  virtual ~Session() = default;
  virtual const ModelInfo& info() const = 0;
  /// Runs the method once. State (buffers, attributes) is reloaded before every further run. When the model raises,
  /// capture.run.outcome says failed and the prefix stays recorded; no exception. Throws tl::Error for misfits found
  /// before the run.
  virtual RunResult run(const RunRequest& request, Capture& capture) = 0;
  /// Runs the method with LibTorch's own interpreter, unrecorded. For benchmarks and tests.
  virtual RunResult run_plain(const RunRequest& request) = 0;
};

/// A LibTorch engine opened at run time.
class Engine {
 public:
  virtual ~Engine() = default;
  /// LibTorch 2.13.0
  virtual std::string version() const = 0;
  /// Loads a model; refuses missing operators, classes and unsafe operators by name before LibTorch parses the file.
  virtual std::unique_ptr<Session> load(const ModelRequest& request) = 0;
  /// Qualified names of all operators the process knows now (dispatcher and JIT registry), sorted, without overloads.
  virtual std::vector<std::string> operator_names() const = 0;
  /// Fills `slate` from now on while loading and running, and on a fatal signal; null detaches.
  virtual void set_crash_slate(CrashSlate* slate) = 0;
};

/// The two symbols an engine plugin exports.
extern "C" {
using EngineBuildIdFn = const char* (*)();
using EngineOpenFn = Engine* (*)();  ///< owned by the caller; never null; throws nothing
}
inline constexpr const char* kEngineBuildIdSymbol = "torchlens_engine_build_id";
inline constexpr const char* kEngineOpenSymbol = "torchlens_engine_open";

}  // namespace tl

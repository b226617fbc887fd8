#include "postprocess/pipeline.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace tl {
namespace {

constexpr std::uint32_t kGiven = kCaptureEvents | kCaptureOutputs;
constexpr std::uint32_t kOpTables =
    kOpRows | kOpFlags | kEdgeRows | kArgWords | kParamUses | kPayloadOfOp | kStatistics;
constexpr std::uint32_t kRangesOverOps = kCallRows | kBranchRows | kLoopRows | kFlowRows;

constexpr std::array kSteps = {
    Step{.name = "materialise-ops",
         .reads = kCaptureEvents,
         .writes = kProgram | kOpTables | kRangesOverOps | kTimes | kRunFacts | kDistances | kPasses | kBranchOfOp |
                   kBufferVersions | kModuleCounts,
         .run = materialise_ops,
         .about = "turns events into rows of ops and edges, counts raw labels"},
    Step{.name = "add-output-nodes",
         .reads = kCaptureOutputs | kOpTables | kCallRows,
         .writes = kOpTables | kCallRows | kTimes | kDistances | kPasses | kBranchOfOp,
         .run = add_output_nodes,
         .about = "adds one row a tensor that the model returned"},
    Step{.name = "mark-output-ancestors",
         .reads = kOpRows | kEdgeRows | kOpFlags,
         .writes = kOpFlags,
         .run = mark_output_ancestors,
         .about = "flags what feeds an output"},
    Step{.name = "remove-orphans",
         .reads = kOpTables | kRangesOverOps | kRunFacts,
         .writes = kOpTables | kRangesOverOps | kTimes | kDistances | kPasses | kBranchOfOp | kProgram,
         .run = remove_orphans,
         .about = "drops what hangs on no input, output or written buffer"},
    Step{.name = "mark-depths",
         .reads = kOpRows | kEdgeRows | kOpFlags,
         .writes = kDistances | kOpFlags,
         .run = mark_depths,
         .about = "measures distances from inputs and to outputs, flags sources and sinks"},
    Step{.name = "attribute-branches",
         .reads = kOpRows | kBranchRows | kProgram | kCallRows | kFlowRows | kArgWords,
         .writes = kBranchOfOp | kBranchRows,
         .run = attribute_branches,
         .about = "names the arms of conditionals by the source, hangs ops on those they ran in"},
    Step{.name = "fix-buffers",
         .reads = kOpRows | kEdgeRows | kOpFlags | kProgram,
         .writes = kBufferVersions | kOpFlags,
         .run = fix_buffers,
         .about = "counts the versions of every buffer, flags writes"},
    Step{.name = "group-loops",
         .reads = kOpRows | kProgram,
         .writes = kPasses | kLabels | kProgram,
         .run = group_loops,
         .about = "groups ops that are the same code into Layers with passes"},
    Step{.name = "assign-labels",
         .reads = kOpRows | kPasses | kProgram,
         .writes = kLabels,
         .run = assign_labels,
         .about = "numbers the Layers by type and in total"},
    Step{.name = "rename-references",
         .reads = kOpRows | kPasses | kLabels | kRunFacts | kProgram,
         .writes = kRunFacts,
         .run = rename_references,
         .about = "replaces raw labels in the facts of the run by final ones"},
    Step{.name = "settle-payloads",
         .reads = kOpRows | kOpFlags | kPayloadOfOp,
         .writes = kPayloadOfOp | kPayloadRows | kProgram,
         .run = settle_payloads,
         .about = "makes one row a distinct saved tensor and chooses its encoding"},
    Step{.name = "build-modules",
         .reads = kOpRows | kCallRows | kOpFlags,
         .writes = kModuleCounts | kOpFlags,
         .run = build_modules,
         .about = "counts the calls of every module, flags what they returned"},
    Step{.name = "hash-graph",
         .reads = kOpRows | kEdgeRows | kCallRows | kProgram,
         .writes = kGraphHash,
         .run = hash_graph,
         .about = "digests the shape of the graph, blind to values"},
    Step{
        .name = "freeze", .reads = kOpRows, .writes = kFinished, .run = freeze, .about = "marks the trace as finished"},
};

template <std::size_t kCount>
constexpr bool reads_are_written(const std::array<Step, kCount>& steps) {
  auto written = kGiven;
  for (const auto& step : steps) {
    if ((step.reads & ~written) != 0) return false;
    written |= step.writes;
  }
  return true;
}
static_assert(reads_are_written(kSteps), "a step reads a column that no earlier step wrote");

/// Steps that a sparse recording has behind it: those that read the Capture.
constexpr std::size_t kSparseSteps = 2;
static_assert(std::ranges::none_of(std::span(kSteps).subspan(kSparseSteps),
                                   [](const Step& step) { return (step.reads & kGiven) != 0; }),
              "a step that reads the Capture comes too late for sparse recordings");

void run_steps(std::span<const Step> steps, StepContext& context, std::span<StepObserver* const> observers,
               const Step* last) {
  for (const auto& step : steps) {
    for (auto* observer : observers) observer->before(step, context.trace);
    step.run(context);
    for (auto* observer : observers) observer->after(step, context.trace);
    if (&step == last) break;
  }
}

}  // namespace

std::span<const Step> pipeline_steps() { return kSteps; }

const Step& find_step(std::string_view name) {
  const auto found = std::ranges::find(kSteps, name, &Step::name);
  if (found != kSteps.end()) return *found;
  std::vector<std::string> names;
  for (const auto& step : kSteps) names.emplace_back(step.name);
  const auto near = did_you_mean(name, names);
  throw Error(ErrorCode::kUsage, "no step is called `" + std::string(name) + "`",
              near.empty() ? "--list-steps shows them" : "did you mean `" + near[0] + "`?");
}

SparseRecording make_sparse(Capture&& capture) {
  SparseRecording recording;
  StepContext context{recording.trace, capture};
  for (const auto& step : std::span(kSteps).first(kSparseSteps)) step.run(context);
  recording.event_shapes = recording.trace.shapes.size();
  settle_payloads(context);
  return recording;
}

Trace finish_sparse(SparseRecording&& recording, std::span<StepObserver* const> observers) {
  auto trace = std::move(recording.trace);
  // As if the payloads had not been settled: their rows and what they added to the pool are made again, in the order of
  // the Ops that stay.
  trace.payloads = {};
  trace.shapes.truncate(recording.event_shapes);
  Capture capture;
  StepContext context{trace, capture, recording.sources};
  run_steps(std::span(kSteps).subspan(kSparseSteps), context, observers, nullptr);
  return trace;
}

Trace run_pipeline(Capture&& capture, std::span<StepObserver* const> observers, const PipelineOptions& options) {
  const auto* last = options.stop_after.empty() ? nullptr : &find_step(options.stop_after);
  Trace trace;
  StepContext context{trace, capture, options.sources};
  run_steps(kSteps, context, observers, last);
  return trace;
}

}  // namespace tl

#include "sparse_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "json_output.h"
#include "screen.h"
#include "text_format.h"

namespace tl::cli {

void check_sparse_options(const TraceOptions& options) {
  if (!options.sparse) return;
  if (options.stream || options.dry_run) {
    throw Error(ErrorCode::kSparseConflict,
                std::string("--sparse and ") + (options.stream ? "--stream" : "--dry-run") + " exclude each other",
                "leave one of the two out");
  }
  const auto& steps = options.steps;
  const char* asked = !steps.print_after.empty()      ? "--print-after"
                      : steps.print_changed           ? "--print-changed"
                      : !steps.dump_directory.empty() ? "--dump-steps"
                      : steps.verify_each             ? "--verify-each"
                      : steps.time                    ? "--time-steps"
                      : !steps.stop_after.empty()     ? "--stop-after-step"
                                                      : nullptr;
  if (asked == nullptr) return;
  throw Error(ErrorCode::kSparseConflict,
              std::string("--sparse takes no steps of postprocess, ") + asked + " watches them",
              "leave one of the two out");
}

void report_sparse(Context& context, const Trace& trace, const std::filesystem::path& output,
                   const WriteReport& written, bool ok) {
  const auto operations = std::ranges::count(trace.ops.kind, static_cast<std::uint8_t>(OpKind::kOperation));
  if (context.format == Format::kJson) {
    const nlohmann::ordered_json body = {{"kind", "sparse"},
                                         {"num_ops", trace.num_ops()},
                                         {"num_operations", operations},
                                         {"num_payloads", written.payloads},
                                         {"outcome", outcome_json(trace.run.outcome)},
                                         {"output", output.string()},
                                         {"output_bytes", written.bytes}};
    context.out.raw(json_envelope("trace", ok, body));
  } else {
    context.out.line(trace.run.model_file + "   sparse recording: " + counted(operations, "operation") + ", " +
                     counted(static_cast<std::int64_t>(written.payloads), "value") + " kept");
    print_partial(context.out, trace.run.outcome);
  }
  context.out.flush();
  if (context.quiet()) return;
  context.err.line("wrote   " + output.string() + "   " + format_bytes(written.bytes));
  context.err.line("next    torchlens finish " + shell_quoted(output.string()));
}

}  // namespace tl::cli

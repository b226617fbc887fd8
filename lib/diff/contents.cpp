#include "diff/contents.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "diff/contents_parts.h"
#include "diff/coverage.h"
#include "diff/weight_pairs.h"

namespace tl {
namespace {

std::string counted(std::int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

bool is_code(OperatorForm form) { return form == OperatorForm::kScriptSource || form == OperatorForm::kTraceSource; }

void add_trace_parts(const Trace& trace, ModelContents& contents) {
  for (std::size_t row = 0; row < trace.modules.address.size(); ++row) {
    const auto training = trace.modules.training[row];
    ModelModule module;
    module.path = row == 0 ? "" : trace.strings[trace.modules.address[row]];
    module.class_name = trace.strings[trace.modules.class_name[row]];
    if (training <= 1) module.training = training == 1;
    contents.modules.push_back(std::move(module));
  }
  std::map<std::string, std::uint64_t> operators;
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    if (static_cast<OpKind>(trace.ops.kind[op]) != OpKind::kOperation || trace.ops.slot[op] > 0) continue;
    const auto name = trace.strings[trace.instructions.op_name[static_cast<std::size_t>(trace.ops.instruction[op])]];
    const auto space = name.find("::");
    const auto overload = name.find('.', space == std::string_view::npos ? 0 : space);
    ++operators[std::string(name.substr(0, overload))];
  }
  contents.operators.assign(operators.begin(), operators.end());
  contents.operator_form = OperatorForm::kExecuted;
}

void add_inputs(const Side& side, ModelContents& contents) {
  for (std::size_t row = 0; row < side.size(); ++row) {
    if (side.kind[row] != OpKind::kInput) continue;
    ModelInput input;
    input.name = side.trace ? site_ref(side, row).module : site_ref(side, row).label;
    if (input.name.starts_with("input.")) input.name.erase(0, 6);
    input.type = "Tensor";
    input.dtype = dtype_of(side, row);
    contents.inputs.push_back(std::move(input));
  }
  contents.has_inputs = !contents.inputs.empty();
}

DiffSide describe_contents(const ModelContents& contents, const std::string& name) {
  DiffSide side;
  side.name = name;
  side.kind = contents.kind;
  side.details = contents.details;
  side.model_class = contents.model_class;
  side.mode = contents.mode;
  side.dtype = contents.dtype;
  side.outcome = "complete";
  side.num_sites = static_cast<std::int64_t>(contents.calls.size());
  return side;
}

const Precondition* find(const DiffReport& report, std::string_view name) {
  const auto found = std::ranges::find(report.preconditions, name, &Precondition::name);
  return found == report.preconditions.end() ? nullptr : &*found;
}

class ContentsComparer {
 public:
  ContentsComparer(const ModelContents& reference, const ModelContents& subject, const DiffOptions& options)
      : reference_(reference), subject_(subject), options_(options) {}

  DiffReport run() {
    report_.is_static = true;
    report_.again = options_.again;
    report_.reference = describe_contents(reference_, options_.reference_name);
    report_.subject = describe_contents(subject_, options_.subject_name);
    add_weights();
    add(compare_signatures(reference_, subject_));
    add(compare_modes(reference_, subject_, options_.rename));
    add(compare_module_trees(reference_, subject_, options_.rename));
    add_code();
    add(compare_operators(reference_, subject_));
    add_calls();
    for (const auto* side : {&reference_, &subject_}) {
      for (const auto& note : side->notes) report_.notes.push_back(note);
    }
    check_shared();
    reach_verdict();
    return std::move(report_);
  }

 private:
  void add(Precondition condition) {
    const bool told = condition.agreement != Agreement::kUnknown || !condition.details.empty();
    if (told || condition.name == "weights") report_.preconditions.push_back(std::move(condition));
  }

  void add_weights() {
    WeightOptions weights;
    weights.rename = options_.rename;
    weights.one_sided = true;
    weights.constants = reference_.operator_form == subject_.operator_form && !reference_.only_tensors;
    weights.lacks_buffers = reference_.only_tensors != subject_.only_tensors;
    auto compared = compare_weights(reference_.tensors, subject_.tensors, weights);
    paired_ = compared.paired;
    add(std::move(compared.weights));
    add(std::move(compared.buffers));
  }

  void add_code() {
    if (!is_code(reference_.operator_form) || !is_code(subject_.operator_form)) return;
    add(compare_attributes(reference_, subject_, options_.rename));
    if (reference_.operator_form != subject_.operator_form) {
      report_.notes.emplace_back("a script and a trace write the same code in other words: code was not compared");
      return;
    }
    add(compare_code(reference_, subject_, options_.rename));
  }

  void add_calls() {
    const bool both = reference_.operator_form == OperatorForm::kExportedGraph &&
                      subject_.operator_form == OperatorForm::kExportedGraph;
    if (both && reference_.dialect == subject_.dialect) {
      return compare_calls(reference_, subject_, options_.rename, report_);
    }
    const bool none = reference_.operator_form == OperatorForm::kNone || subject_.operator_form == OperatorForm::kNone;
    if (none || (is_code(reference_.operator_form) && is_code(subject_.operator_form))) return;
    report_.notes.emplace_back(
        both ? "the two programs are written in different operators: arguments of calls were not compared"
             : "arguments of calls are compared between two recordings or two exported programs; here they were not");
  }

  void check_shared() const {
    if (paired_ > 0 || reference_.tensors.empty() || subject_.tensors.empty() || report_.coverage.matched > 0) return;
    throw Error(ErrorCode::kNoSharedSites,
                options_.reference_name + " and " + options_.subject_name + " share no weight: none of the " +
                    counted(static_cast<std::int64_t>(reference_.tensors.size()), "tensor") +
                    " of the reference is one of the " + std::to_string(subject_.tensors.size()) + " of the subject",
                "are they the same model? where weights have other names and values, --map FILE tells which are which",
                "tried: names, equal contents");
  }

  bool differs(std::string_view name) const {
    const auto* condition = find(report_, name);
    return condition != nullptr && condition->agreement == Agreement::kDifferent;
  }

  std::int64_t count_arguments() const {
    return std::ranges::count_if(report_.sites, [](const DiffSite& site) { return !site.arguments.empty(); });
  }

  std::int64_t count_changes() const {
    return std::ranges::count_if(report_.changes, [](const DiffChange& change) {
      return !std::ranges::all_of(change.reference, is_neutral_call) ||
             !std::ranges::all_of(change.subject, is_neutral_call);
    });
  }

  bool fails(FailOn what) const {
    switch (what) {
      case FailOn::kSites:
      case FailOn::kOutputs:
        return false;
      case FailOn::kArguments:
        return count_arguments() > 0 || differs("attributes");
      case FailOn::kWeights:
        return differs("weights") || differs("buffers");
      case FailOn::kInputs:
        return differs("signature");
      case FailOn::kStructure:
        return count_changes() > 0 || differs("code") || (report_.sites.empty() && differs("operators"));
    }
    return false;
  }

  void reach_verdict() {
    auto fail_on = options_.fail_on;
    std::erase_if(fail_on, [](FailOn what) { return what == FailOn::kSites || what == FailOn::kOutputs; });
    const bool chosen = !fail_on.empty();
    if (!chosen) fail_on = {FailOn::kArguments, FailOn::kWeights, FailOn::kInputs, FailOn::kStructure};
    report_.different = std::ranges::any_of(fail_on, [&](FailOn what) { return fails(what); });
    if (!chosen) report_.different = report_.different || differs("mode");
    const auto differences = differences_text();
    if (report_.different) {
      report_.verdict = "DIFFERENT  " + differences;
    } else {
      const auto same = same_text();
      if (same.empty() && differences.empty()) refuse_to_judge();
      report_.verdict = (differences.empty() ? "SAME       " : "ACCEPTED   ") + same +
                        (differences.empty() ? "" : "; " + differences) + "; nothing was run";
    }
  }

  [[noreturn]] void refuse_to_judge() const {
    throw Error(
        ErrorCode::kNoSharedSites,
        options_.reference_name + " and " + options_.subject_name +
            " tell nothing of their models that can be held against each other",
        "record both with torchlens trace and compare the recordings",
        options_.reference_name + " is " + reference_.kind + ", " + options_.subject_name + " is " + subject_.kind);
  }

  std::string differences_text() const {
    std::string text;
    const auto add_part = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
    for (const char* name : {"weights", "buffers", "signature", "mode", "attributes", "code"}) {
      const auto* condition = find(report_, name);
      if (condition == nullptr || condition->agreement != Agreement::kDifferent) continue;
      const auto count = condition->total - condition->same;
      const bool plural = std::string_view(name).ends_with('s');
      add_part(std::string(name) + (plural ? " differ" : " differs") +
               (count > 0 ? " (" + std::to_string(count) + " of " + std::to_string(condition->total) + ")" : ""));
    }
    if (const auto count = count_arguments()) add_part(counted(count, "call") + " with other arguments");
    if (const auto count = count_changes()) add_part(counted(count, "change") + " of structure");
    if (report_.sites.empty() && differs("operators") && !differs("code")) add_part("operators differ");
    return text;
  }

  std::string same_text() const {
    std::string text;
    for (const auto& condition : report_.preconditions) {
      if (condition.agreement != Agreement::kSame) continue;
      const auto count =
          condition.total > 0 ? " " + std::to_string(condition.same) + "/" + std::to_string(condition.total) : "";
      text += (text.empty() ? "" : ", ") + condition.name + count;
    }
    if (report_.coverage.total > 0) {
      text += (text.empty() ? "" : ", ") + std::string("calls ") + std::to_string(report_.coverage.matched) + "/" +
              std::to_string(report_.coverage.total);
    }
    return text;
  }

  const ModelContents& reference_;
  const ModelContents& subject_;
  const DiffOptions& options_;
  DiffReport report_;
  std::int64_t paired_ = 0;
};

}  // namespace

ModelContents contents_of(const Side& side) {
  ModelContents contents;
  const auto described = describe(side, "");
  contents.kind = described.kind;
  contents.details = described.details;
  contents.model_class = described.model_class;
  contents.mode = described.mode == "baked" ? "" : described.mode;
  contents.dtype = described.dtype;
  contents.tensors = tensors_of(side);
  add_inputs(side, contents);
  if (side.trace) add_trace_parts(*side.trace, contents);
  if (side.dump &&
      std::ranges::any_of(side.dump->modules, [](const auto& module) { return !module.constants.empty(); })) {
    contents.notes.emplace_back(
        "constants of modules (eps, stride …) are compared with the operations of a run: here they were not");
  }
  if (described.mode == "baked") {  // what ran is in the arguments of the operations
    for (auto& module : contents.modules) module.training.reset();
  }
  return contents;
}

DiffReport compare_contents(const ModelContents& reference, const ModelContents& subject, const DiffOptions& options) {
  return ContentsComparer(reference, subject, options).run();
}

}  // namespace tl

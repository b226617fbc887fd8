#include "diff/module_state.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "diff/report_parts.h"
#include "diff/weights.h"

namespace tl {
namespace {

std::size_t row_of(std::int64_t row) { return static_cast<std::size_t>(row); }

std::string_view module_of_address(std::string_view address) {
  const auto dot = address.rfind('.');
  return dot == std::string_view::npos ? std::string_view("self") : address.substr(0, dot);
}

std::string_view own_name(std::string_view address) { return address.substr(address.rfind('.') + 1); }

/// A buffer as a recording tells of it; `digest` empty where it has neither that nor the value.
struct Buffer {
  std::string address;
  std::string digest;
  DType dtype = DType::kNone;
  std::vector<std::int64_t> sizes;
};

std::vector<Buffer> buffers_of(const Dump& dump) {
  std::vector<Buffer> buffers;
  for (const auto& param : dump.params) {
    if (param.is_buffer) buffers.push_back({param.address, param.digest, param.dtype, param.sizes});
  }
  return buffers;
}

/// As they were before the model wrote to them. Those that `wanted` does not name are not digested.
std::vector<Buffer> buffers_of(const Side& side, const std::unordered_set<std::string>& wanted) {
  std::vector<Buffer> buffers;
  const auto& trace = *side.trace;
  for (std::size_t row = 0; row < side.size(); ++row) {
    if (side.kind[row] != OpKind::kBuffer || (trace.ops.flags[row] & kOpBufferWrite)) continue;
    std::string address(trace.strings[trace.ops.address[row]]);
    if (!wanted.contains(address)) continue;
    const auto value = value_of(side, row);
    Buffer buffer{std::move(address), {}, dtype_of(side, row), sizes_of(side, row)};
    if (value.evidence == Evidence::kFull && value.tensor->kind() == TensorKind::kStrided) {
      buffer.digest = packed_digest(value.tensor->to_host().at(0).tensor);
    }
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

class StateComparer {
 public:
  StateComparer(const Side& reference, const Side& subject, const Renamer& rename)
      : reference_(reference), subject_(subject), rename_(rename) {}

  ModuleState run() {
    compare_parameters();
    compare_buffers();
    return std::move(state_);
  }

 private:
  std::string named(const std::string& address) const { return rename_ ? rename_(address) : address; }

  /// Packed weights of quantised modules have types of their own: only digests of one type compare.
  template <typename Facts>
  bool add_difference(const Facts& ours, const Facts& theirs) {
    const bool same_type = ours.dtype == theirs.dtype && ours.sizes == theirs.sizes;
    if (same_type && (ours.digest.empty() || theirs.digest.empty())) return false;
    if (same_type && ours.digest == theirs.digest) return false;
    const auto text = [&](const Facts& facts) {
      return facts.address + " " +
             (same_type ? std::string(facts.digest).substr(0, 8) : report::type_text(facts.dtype, facts.sizes));
    };
    state_.differences.push_back({ours.address, theirs.address, text(ours), text(theirs)});
    return true;
  }

  void compare_parameters() {
    const auto theirs = params_of(subject_, {});
    std::unordered_map<std::string_view, const ParamFacts*> by_name;
    for (const auto& param : theirs) by_name.emplace(param.name, &param);
    for (const auto& param : params_of(reference_, rename_)) {
      if (const auto other = by_name.find(param.name); other != by_name.end()) add_difference(param, *other->second);
    }
  }

  void compare_buffers() {
    auto& condition = state_.buffers;
    condition.name = "buffers";
    std::unordered_set<std::string> wanted;
    if (subject_.dump) {
      for (const auto& buffer : buffers_of(*subject_.dump)) wanted.insert(buffer.address);
    }
    if (reference_.dump) {
      for (const auto& buffer : buffers_of(*reference_.dump)) wanted.insert(named(buffer.address));
    }
    std::unordered_map<std::string, Buffer> theirs;
    for (auto& buffer : subject_.dump ? buffers_of(*subject_.dump) : buffers_of(subject_, wanted)) {
      auto address = buffer.address;
      theirs.emplace(std::move(address), std::move(buffer));
    }
    for (const auto& buffer : reference_.dump ? buffers_of(*reference_.dump) : unrenamed_buffers(wanted)) {
      const auto other = theirs.find(named(buffer.address));
      if (other == theirs.end() || buffer.digest.empty() || other->second.digest.empty()) continue;
      ++condition.total;
      if (add_difference(buffer, other->second)) {
        condition.details.push_back(other->first + ": contents differ");
      } else {
        ++condition.same;
      }
    }
    if (condition.total > 0) {
      condition.agreement = condition.same == condition.total ? Agreement::kSame : Agreement::kDifferent;
    }
  }

  /// Those of a Trace on the reference's side, wanted by the names of the subject.
  std::vector<Buffer> unrenamed_buffers(const std::unordered_set<std::string>& wanted) const {
    std::unordered_set<std::string> ours;
    for (const auto code : reference_.trace->buffers.address) {
      std::string address(reference_.trace->strings[code]);
      if (wanted.contains(named(address))) ours.insert(std::move(address));
    }
    return buffers_of(reference_, ours);
  }

  const Side& reference_;
  const Side& subject_;
  const Renamer& rename_;
  ModuleState state_;
};

}  // namespace

ModuleState compare_module_state(const Side& reference, const Side& subject, const Renamer& rename) {
  return StateComparer(reference, subject, rename).run();
}

void name_module_state(const ModuleState& state, const Side& reference, const Side& subject,
                       std::vector<DiffSite>& sites) {
  if (state.differences.empty()) return;
  const bool by_reference = reference.dump != nullptr;
  std::unordered_map<std::string_view, std::vector<const StateDifference*>> by_module;
  for (const auto& difference : state.differences) {
    by_module[module_of_address(by_reference ? difference.reference : difference.subject)].push_back(&difference);
  }
  for (auto& site : sites) {
    const auto* module = by_reference ? dump_module(reference, row_of(site.reference.row))
                                      : dump_module(subject, row_of(site.subject.row));
    const auto found = module ? by_module.find(module->address) : by_module.end();
    if (found == by_module.end()) continue;
    for (const auto* difference : found->second) {
      site.arguments.push_back(
          {std::string(own_name(difference->reference)), difference->reference_text, difference->subject_text});
    }
  }
}

}  // namespace tl

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/counts.h"
#include "trace/args.h"
#include "trace/trace.h"

namespace tl {

/// The arguments of an instruction as its template states them, by position: `self=%0, dim=$1, p=0.5`.
class ArgTemplate {
 public:
  struct Entry {
    std::string_view name;  ///< empty where the template gives none
    std::string_view text;  ///< %k, $k, or a literal
  };

  ArgTemplate() = default;
  /// `text` must outlive the template.
  explicit ArgTemplate(std::string_view text);

  std::optional<std::size_t> position(std::string_view name) const;
  std::string_view name(std::size_t position) const {
    return position < entries_.size() ? entries_[position].name : std::string_view();
  }
  std::string_view text(std::size_t position) const {
    return position < entries_.size() ? entries_[position].text : std::string_view();
  }

 private:
  std::vector<Entry> entries_;
};

/// A tensor that a call was given.
struct TensorArg {
  std::int16_t position = 0;  ///< in the schema
  std::int16_t sub = -1;      ///< element of a list argument; -1 for the argument itself, and where it is not recorded
  std::span<const std::int64_t> sizes;
  DType dtype = DType::kNone;
  std::int64_t identity = 0;  ///< equal for the same Op, or the same parameter
};

/// The tensors given to calls, looked up by position. The trace's param_uses must be sorted by op, as they are stored;
/// Ops are visited in ascending order.
class CallFacts {
 public:
  explicit CallFacts(const Trace& trace) : trace_(trace) {}

  /// Makes `op` the one that is asked about. Ops must be visited in ascending order.
  void visit(OpId op);

  OpId op() const { return op_; }
  std::span<const std::int64_t> output_sizes() const { return sizes(trace_.ops.shape[op_.index()]); }
  /// Every tensor argument, by position, then element.
  std::span<const TensorArg> tensors() const { return tensors_; }
  /// Sizes of the argument (of element `sub` of a list argument); nullopt where it is no recorded tensor.
  std::optional<std::span<const std::int64_t>> arg_sizes(std::size_t position, std::size_t sub = 0) const;
  bool has_tensor(std::size_t position) const { return arg_sizes(position).has_value(); }
  std::span<const std::int64_t> sizes(std::int32_t shape) const { return trace_.shapes[shape]; }

  /// Name of an argument; empty where the template does not say.
  std::string_view arg_name(std::size_t position) const { return template_of().name(position); }
  /// Integers of an argument by name, a single one as a list of one; nullopt where neither the template nor the run
  /// says.
  std::optional<std::vector<std::int64_t>> ints(std::string_view name) const;
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<std::string> string(std::string_view name) const;

 private:
  const ArgTemplate& template_of() const;
  struct PackedArg {
    ArgTag tag = ArgTag::kNone;
    std::span<const std::int64_t> words;
  };
  std::optional<PackedArg> packed(std::size_t position) const;
  void take_own_shapes();
  void place_params(std::size_t num_edges);

  const Trace& trace_;
  OpId op_;
  std::vector<TensorArg> tensors_;
  std::size_t next_use_ = 0;
  mutable std::vector<std::optional<ArgTemplate>> templates_;  ///< by instruction, parsed on demand
};

}  // namespace tl

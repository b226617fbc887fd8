#include "sample_trace.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "trace/args.h"

namespace tl::test {
namespace {

class MemoryTensor : public TensorRef {
 public:
  MemoryTensor(TensorKind kind, std::vector<TensorPart> parts) : kind_(kind), parts_(std::move(parts)) {}
  TensorKind kind() const override { return kind_; }
  std::vector<TensorPart> to_host() const override { return parts_; }

 private:
  TensorKind kind_;
  std::vector<TensorPart> parts_;
};

class MemoryPayloads : public PayloadSource {
 public:
  explicit MemoryPayloads(std::vector<SamplePayload> rows) : rows_(std::move(rows)) {}
  std::size_t size() const override { return rows_.size(); }
  PayloadFacts facts(PayloadId id) const override {
    const auto& row = rows_[id.index()];
    return {.kind = row.kind,
            .dtype = row.dtype,
            .storage = id.value,
            .offset = 0,
            .sizes = row.sizes,
            .strides = row.strides};
  }
  TensorRefPtr tensor(PayloadId id) const override {
    const auto& row = rows_[id.index()];
    if (row.parts.empty() && row.kind != TensorKind::kOpaque) return nullptr;
    return std::make_shared<MemoryTensor>(row.kind, row.parts);
  }

 private:
  std::vector<SamplePayload> rows_;
};

/// A storage of `bytes` bytes with distinct content.
HostTensor strided(DType dtype, std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides, std::int64_t offset,
                   std::size_t elements) {
  auto block = std::make_shared<std::vector<std::byte>>(elements * item_bytes(dtype));
  for (std::size_t i = 0; i < block->size(); ++i) (*block)[i] = static_cast<std::byte>(i * 37 + 11);
  if (dtype == DType::kBool) {
    for (auto& byte : *block) byte &= std::byte{1};
  }
  HostTensor tensor;
  tensor.dtype = dtype;
  tensor.sizes = std::move(sizes);
  tensor.strides = std::move(strides);
  tensor.offset = offset;
  tensor.storage = *block;
  tensor.owner = block;
  return tensor;
}

HostTensor packed(DType dtype, const std::vector<std::int64_t>& sizes) {
  return strided(dtype, sizes, contiguous_strides(sizes), 0, static_cast<std::size_t>(checked_numel(sizes)));
}

SamplePayload payload_of(std::string name, HostTensor tensor, PayloadEncoding encoding = PayloadEncoding::kDense) {
  SamplePayload payload;
  payload.name = std::move(name);
  payload.dtype = tensor.dtype;
  payload.sizes = tensor.sizes;
  payload.strides = tensor.strides;
  payload.encoding = encoding;
  payload.parts.push_back({"", std::move(tensor)});
  return payload;
}

SamplePayload without_bytes(std::string name, TensorKind kind, PayloadEncoding encoding) {
  SamplePayload payload;
  payload.name = std::move(name);
  payload.kind = kind;
  payload.sizes = {2, 2};
  payload.strides = {2, 1};
  payload.encoding = encoding;
  return payload;
}

SamplePayload quantised() {
  auto payload = payload_of("quantised", packed(DType::kI8, {2, 3}), PayloadEncoding::kQuantised);
  payload.kind = TensorKind::kQuantised;
  payload.dtype = DType::kQI8;
  payload.parts.push_back({".scale", packed(DType::kF64, {2})});
  payload.parts.push_back({".zero_point", packed(DType::kI64, {2})});
  return payload;
}

SamplePayload sparse() {
  SamplePayload payload = without_bytes("sparse", TensorKind::kSparse, PayloadEncoding::kSparse);
  payload.sizes = {4, 5};
  payload.strides = {};
  payload.parts.push_back({".indices", packed(DType::kI64, {2, 3})});
  payload.parts.push_back({".values", packed(DType::kF32, {3})});
  return payload;
}

/// Builds the tables row by row.
class SampleBuilder {
 public:
  Trace build(std::int64_t seed) {
    add_static();
    const auto payloads = sample_payloads();
    add_op(OpKind::kInput, -1, {}, "input.x");
    add_op(OpKind::kBuffer, -1, {}, "encoder.mean");
    for (std::size_t i = 0; i < payloads.size(); ++i) add_operation(payloads, i);
    const auto last = static_cast<std::int32_t>(trace_.num_ops() - 1);
    add_op(OpKind::kOutput, -1, {last}, "output");
    add_distances();
    add_layers();
    add_dynamic();
    add_run(seed);
    trace_.payload_source = std::make_shared<MemoryPayloads>(payloads);
    trace_.finished = true;
    return std::move(trace_);
  }

 private:
  std::int32_t text(std::string_view value) { return trace_.strings.intern(value); }

  void add_static() {
    auto& sites = trace_.call_sites;
    sites.file.push_back(text("model.py"));
    sites.line.push_back(12);
    sites.column.push_back(4);
    sites.column_end.push_back(-1);
    sites.function.push_back(text("forward"));
    auto& modules = trace_.modules;
    for (const auto* address : {"self", "encoder"}) {
      modules.address.push_back(text(address));
      modules.all_addresses.push_back(text(address));
      modules.class_name.push_back(text("Net"));
      modules.qualified_class.push_back(text("pkg.Net"));
      modules.parent.push_back(static_cast<std::int32_t>(modules.parent.size()) - 1);
      modules.training.push_back(0);
      modules.num_calls.push_back(1);
      trace_.site_contexts.module.push_back(static_cast<std::int32_t>(modules.parent.size()) - 1);
      trace_.site_contexts.parent.push_back(-1);
      trace_.site_contexts.call_site.push_back(-1);
    }
    add_params();
  }

  void add_params() {
    auto& params = trace_.params;
    params.address.push_back(text("encoder.weight"));
    params.all_addresses.push_back(text("encoder.weight,tied.weight"));
    params.module.push_back(1);
    params.kind.push_back(0);
    params.dtype.push_back(static_cast<std::uint8_t>(DType::kF32));
    params.shape.push_back(shape({2, 3}));
    params.bytes.push_back(24);
    params.trainable.push_back(1);
    params.digest.push_back(-1);
    auto& buffers = trace_.buffers;
    buffers.address.push_back(text("encoder.mean"));
    buffers.module.push_back(1);
    buffers.dtype.push_back(static_cast<std::uint8_t>(DType::kF32));
    buffers.shape.push_back(shape({3}));
    buffers.bytes.push_back(12);
    buffers.num_versions.push_back(1);
    buffers.last_op.push_back(1);
  }

  std::int32_t shape(const std::vector<std::int64_t>& dims) { return trace_.shapes.intern(dims); }

  void add_operation(const std::vector<SamplePayload>& payloads, std::size_t i) {
    const auto& payload = payloads[i];
    auto& instructions = trace_.instructions;
    const bool again = i + 1 == payloads.size();  // the last payload comes from a second pass of the one before
    if (!again) {
      instructions.op_name.push_back(text("aten::" + payload.name));
      instructions.overload.push_back(text(""));
      instructions.func_name.push_back(text(payload.name));
      instructions.layer_type.push_back(text(payload.name));
      instructions.call_site.push_back(0);
      instructions.arg_template.push_back(text("self=%0, dim=$1"));
      instructions.value_names.push_back(text("y"));
      instructions.flags.push_back(kInstrDispatched);
    }
    auto& args = trace_.args;
    const auto op = static_cast<std::int32_t>(trace_.num_ops());
    add_op(OpKind::kOperation, static_cast<std::int32_t>(instructions.flags.size()) - 1, {op - 1, 0}, "");
    args.push_back(ArgHeader{ArgTag::kIntList, 1, 0}.pack());
    args.push_back(2);
    args.push_back(-3);
    args.push_back(static_cast<std::int64_t>(i));
    auto& rows = trace_.payloads;
    trace_.ops.payload.mut(static_cast<std::size_t>(op)) = static_cast<std::int32_t>(i);
    rows.first_op.push_back(op);
    const auto known = payload.kind == TensorKind::kStrided ? PayloadEncoding::kDense : payload.encoding;
    rows.encoding.push_back(static_cast<std::uint8_t>(known));
    rows.dtype.push_back(static_cast<std::uint8_t>(payload.dtype));
    rows.shape.push_back(shape(payload.sizes));
    rows.strides.push_back(shape(payload.strides));
    rows.offset.push_back(0);
    rows.bytes.push_back(0);
    rows.shard.push_back(-1);
  }

  void add_op(OpKind kind, std::int32_t instruction, const std::vector<std::int32_t>& parents,
              std::string_view address) {
    auto& ops = trace_.ops;
    const auto row = static_cast<std::int32_t>(trace_.num_ops());
    ops.kind.push_back(static_cast<std::uint8_t>(kind));
    ops.flags.push_back(kOpOutputAncestor | (kind == OpKind::kBuffer ? 0u : kOpInputDescendant));
    ops.instruction.push_back(instruction);
    ops.slot.push_back(0);
    ops.num_slots.push_back(1);
    ops.layer.push_back(-1);
    ops.pass_index.push_back(1);
    ops.module_call.push_back(kind == OpKind::kOperation ? 1 : 0);
    ops.site_context.push_back(kind == OpKind::kOperation ? 1 : 0);
    ops.branch.push_back(kind == OpKind::kOperation ? 0 : -1);
    ops.dtype.push_back(static_cast<std::uint8_t>(DType::kF32));
    ops.device.push_back(0);
    ops.shape.push_back(shape({row, 2}));
    ops.edge_begin.push_back(static_cast<std::int32_t>(trace_.edges.parent.size()));
    ops.args_begin.push_back(static_cast<std::int32_t>(trace_.args.size()));
    ops.payload.push_back(-1);
    ops.sample.push_back(-1);
    ops.address.push_back(address.empty() ? -1 : text(address));
    ops.raw_index.push_back(row + 1);
    ops.type_index.push_back(1);
    trace_.op_seconds.push_back(static_cast<float>(row) * 1e-6f);
    for (const auto parent : parents) {
      trace_.edges.parent.push_back(parent);
      trace_.edges.arg.push_back(0);
      trace_.edges.sub.push_back(-1);
    }
  }

  /// Every operation reads the row before and the input (row 0); the buffer is row 1, the output reads the last
  /// operation.
  void add_distances() {
    auto& ops = trace_.ops;
    const auto last = static_cast<std::int32_t>(trace_.num_ops()) - 1;
    for (std::int32_t row = 0; row <= last; ++row) {
      ops.min_distance_from_input.push_back(row == 0 ? 0 : row == 1 ? -1 : row == last ? 2 : 1);
      ops.max_distance_from_input.push_back(row == 0 ? 0 : row == 1 ? -1 : row - 1);
      ops.min_distance_to_output.push_back(row == 0 ? 2 : last - row);
      ops.max_distance_to_output.push_back(row == 0 ? last - 1 : last - row);
    }
  }

  void add_layers() {
    auto& layers = trace_.layers;
    std::int32_t of_instruction = -1;
    for (std::size_t op = 0; op < trace_.num_ops(); ++op) {
      const auto instruction = trace_.ops.instruction[op];
      const bool again = instruction >= 0 && instruction == of_instruction;
      of_instruction = instruction;
      if (again) {
        ++layers.num_passes.mut(layers.num_passes.size() - 1);
        trace_.ops.pass_index.mut(op) = layers.num_passes.back();
      } else {
        layers.layer_type.push_back(text(layer_type(trace_, OpId{static_cast<std::uint32_t>(op)})));
        layers.type_num.push_back(1);
        layers.total_num.push_back(instruction + 1);
        layers.num_passes.push_back(1);
        layers.first_op.push_back(static_cast<std::int32_t>(op));
        layers.ops_begin.push_back(static_cast<std::int32_t>(op));
        layers.grouping_basis.push_back(0);
      }
      trace_.ops.layer.mut(op) = static_cast<std::int32_t>(layers.type_num.size()) - 1;
      trace_.layer_ops.op.push_back(static_cast<std::int32_t>(op));
    }
  }

  void add_dynamic() {
    const auto ops = static_cast<std::int32_t>(trace_.num_ops());
    auto& calls = trace_.module_calls;
    for (std::int32_t call = 0; call < 2; ++call) {
      calls.module.push_back(call);
      calls.call_index.push_back(1);
      calls.parent_call.push_back(call - 1);
      calls.call_site.push_back(call - 1);
      calls.first_op.push_back(0);
      calls.end_op.push_back(ops);
      calls.output_op.push_back(-1);
      trace_.module_call_seconds.push_back(0.5 + call);
    }
    trace_.param_uses.op.push_back(2);
    trace_.param_uses.param.push_back(0);
    trace_.param_uses.arg.push_back(1);
    add_control(ops);
  }

  void add_control(std::int32_t ops) {
    trace_.branches.conditional.push_back(0);
    trace_.branches.arm.push_back(1);
    trace_.branches.parent.push_back(-1);
    trace_.branches.module_call.push_back(1);
    trace_.branches.test_op.push_back(-1);
    trace_.branches.first_op.push_back(2);
    trace_.branches.end_op.push_back(ops);
    trace_.branches.conditional_arm.push_back(0);
    trace_.conditionals.instruction.push_back(0);
    trace_.conditionals.site_context.push_back(1);
    trace_.conditionals.num_arms.push_back(2);
    trace_.conditionals.then_count.push_back(0);
    trace_.conditionals.else_count.push_back(1);
    trace_.conditionals.kind.push_back(static_cast<std::uint8_t>(ConditionalKind::kIfChain));
    trace_.conditionals.line.push_back(4);
    trace_.conditionals.line_end.push_back(7);
    trace_.conditionals.parent_arm.push_back(-1);
    trace_.conditional_arms.conditional.push_back(0);
    trace_.conditional_arms.kind.push_back(static_cast<std::uint8_t>(ArmKind::kElse));
    trace_.conditional_arms.elif_index.push_back(0);
    trace_.conditional_arms.line.push_back(6);
    trace_.conditional_arms.line_end.push_back(7);
    trace_.conditional_arms.test.push_back(-1);
    trace_.conditional_arms.evaluated.push_back(0);
    trace_.conditional_arms.fired.push_back(1);
    trace_.conditional_arms.test_op.push_back(-1);
    trace_.bools.op.push_back(2);
    trace_.bools.context.push_back(static_cast<std::uint8_t>(BoolContext::kWhile));
    trace_.bools.value.push_back(1);
    trace_.loops.instruction.push_back(0);
    trace_.loops.module_call.push_back(1);
    trace_.loops.iterations.push_back(2);
    trace_.loops.first_op.push_back(2);
    trace_.loops.end_op.push_back(4);
    add_flow(ops);
  }

  /// Two host values: an integer read from an Op, and a list.
  void add_flow(std::int32_t ops) {
    auto& flow = trace_.flow;
    auto& words = trace_.flow_args;
    for (const auto tag : {ArgTag::kInt, ArgTag::kIntList}) {
      flow.instruction.push_back(0);
      flow.before_op.push_back(ops);
      flow.args_begin.push_back(static_cast<std::int32_t>(words.size()));
      flow.tag.push_back(static_cast<std::uint8_t>(tag));
      words.push_back(ArgHeader{ArgTag::kOp, 0, ArgHeader::kNoFlow}.pack());
      words.push_back(2);
      words.push_back(ArgHeader{ArgTag::kNone, 1, ArgHeader::kNoFlow}.pack());
    }
    flow.value.push_back(std::int64_t{1} << 60);
    flow.value.push_back(static_cast<std::int64_t>(words.size()));
    words.push_back(ArgHeader{ArgTag::kIntList, 0xffff, ArgHeader::kNoFlow}.pack());
    words.push_back(1);
    words.push_back(5);
  }

  void add_run(std::int64_t seed) {
    auto& run = trace_.run;
    run.model_file = "net.pt";
    run.model_kind = "torchscript script";
    run.model_digest = std::string(32, 'a');
    run.model_bytes = 1234;
    run.model_class = "Net";
    run.engine = "LibTorch 2.13.0";
    run.mode = "eval";
    run.dtype = "f32";
    run.seed = seed;
    run.inputs.push_back({"input.x", "x.safetensors:x", DType::kF32, {1, 2}, "", -1.5, 2.25, {}});
    run.outputs.push_back({"output", "", DType::kF32, {1, 3}, "", 0.1, std::nullopt, {{2, 0.75}, {0, -0.125}}});
    run.health.operator_calls = 9;
    run.health.recorded_calls = 9;
    run.health.skipped_payloads = {"opaque: a backend tensor"};
    run.load_seconds = 0.25;
    run.forward_seconds = 0.125;
    trace_.graph_shape_hash = "00ff";
  }

  Trace trace_;
};

template <typename T>
void expect_equal_column(const std::string& name, const Column<T>& got, const Column<T>& expected) {
  ASSERT_EQ(got.size(), expected.size()) << name;
  for (std::size_t row = 0; row < got.size(); ++row) ASSERT_EQ(got[row], expected[row]) << name << "[" << row << "]";
}

}  // namespace

std::vector<SamplePayload> sample_payloads() {
  std::vector<SamplePayload> all;
  all.push_back(payload_of("contiguous", packed(DType::kF32, {2, 3})));
  all.push_back(payload_of("transposed", strided(DType::kF32, {3, 2}, {1, 3}, 1, 8)));
  all.push_back(payload_of("gaps", strided(DType::kI16, {2, 2}, {8, 2}, 3, 16)));
  all.push_back(payload_of("expanded", strided(DType::kF32, {4, 3}, {0, 1}, 2, 6), PayloadEncoding::kWindow));
  all.push_back(payload_of("unfolded", strided(DType::kI64, {3, 2}, {1, 1}, 0, 4), PayloadEncoding::kWindow));
  all.push_back(payload_of("scalar", strided(DType::kF64, {}, {}, 1, 2)));
  all.push_back(payload_of("empty", packed(DType::kF32, {0, 5})));
  all.push_back(payload_of("bf16", packed(DType::kBF16, {3})));
  all.push_back(payload_of("bool", packed(DType::kBool, {5})));
  all.push_back(payload_of("f16", packed(DType::kF16, {3, 1})));
  all.push_back(payload_of("u8", packed(DType::kU8, {3})));
  all.push_back(payload_of("f8", packed(DType::kF8E4M3, {3})));
  all.push_back(payload_of("c64", packed(DType::kC64, {2, 2})));
  all.push_back(payload_of("c128", strided(DType::kC128, {2, 3}, {1, 2}, 1, 7), PayloadEncoding::kPairs));
  all.push_back(payload_of("c32", packed(DType::kC32, {3}), PayloadEncoding::kPairs));
  all.push_back(payload_of("bits", packed(DType::kBits16, {3})));
  all.push_back(quantised());
  all.push_back(sparse());
  all.push_back(without_bytes("uninitialised", TensorKind::kStrided, PayloadEncoding::kEmpty));
  all.push_back(without_bytes("opaque", TensorKind::kOpaque, PayloadEncoding::kOpaque));
  all.push_back(payload_of("twice", packed(DType::kF32, {2})));
  all.push_back(payload_of("twice", packed(DType::kF32, {3})));
  return all;
}

Trace make_sample_trace(std::int64_t seed) { return SampleBuilder().build(seed); }

std::vector<std::byte> gather(const HostTensor& tensor) {
  const auto item = item_bytes(tensor.dtype);
  std::vector<std::byte> out;
  std::vector<std::int64_t> index(tensor.sizes.size(), 0);
  for (auto left = checked_numel(tensor.sizes); left > 0; --left) {
    auto at = tensor.offset;
    for (std::size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * tensor.strides[axis];
    const auto bytes = tensor.storage.subspan(static_cast<std::size_t>(at) * item, item);
    out.insert(out.end(), bytes.begin(), bytes.end());
    for (auto axis = index.size(); axis-- > 0;) {
      if (++index[axis] < tensor.sizes[axis]) break;
      index[axis] = 0;
    }
  }
  return out;
}

void expect_equal_columns(const Trace& got, const Trace& expected) {
  for_each_table(got, [&](std::string_view table, const auto& rows, auto&&) {
    for_each_table(expected, [&](std::string_view other, const auto& other_rows, auto&& visit) {
      if (table != other) return;
      if constexpr (std::is_same_v<decltype(rows), decltype(other_rows)>) {
        visit(rows, [&](std::string_view field, const auto& column, std::string_view, std::string_view) {
          visit(other_rows,
                [&](std::string_view other_field, const auto& other_column, std::string_view, std::string_view) {
                  if (field != other_field) return;
                  const auto name = std::string(table) + "." + std::string(field);
                  if (name == "payloads.encoding" || name == "payloads.offset" || name == "payloads.shard") return;
                  if constexpr (std::is_same_v<decltype(column), decltype(other_column)>) {
                    expect_equal_column(name, column, other_column);
                  }
                });
        });
      }
    });
  });
  expect_equal_column("args", got.args, expected.args);
  expect_equal_column("flow_args", got.flow_args, expected.flow_args);
  expect_equal_column("ops.seconds", got.op_seconds, expected.op_seconds);
  expect_equal_column("module_calls.seconds", got.module_call_seconds, expected.module_call_seconds);
  ASSERT_EQ(got.strings.size(), expected.strings.size());
  ASSERT_EQ(got.shapes.size(), expected.shapes.size());
  for (std::int32_t code = 0; code < static_cast<std::int32_t>(got.strings.size()); ++code) {
    EXPECT_EQ(got.strings[code], expected.strings[code]);
  }
  for (std::int32_t code = 0; code < static_cast<std::int32_t>(got.shapes.size()); ++code) {
    EXPECT_TRUE(std::ranges::equal(got.shapes[code], expected.shapes[code])) << code;
  }
}

void expect_equal_payloads(const Trace& got, const Trace& expected) {
  ASSERT_NE(got.payload_source, nullptr);
  ASSERT_EQ(got.payload_source->size(), expected.payload_source->size());
  for (std::uint32_t row = 0; row < got.payload_source->size(); ++row) {
    const auto wanted = expected.payload_source->tensor(PayloadId{row});
    const auto tensor = got.payload_source->tensor(PayloadId{row});
    const auto parts = wanted ? wanted->to_host() : std::vector<TensorPart>{};
    ASSERT_EQ(tensor != nullptr, !parts.empty()) << row;
    if (tensor == nullptr) continue;
    EXPECT_EQ(tensor->kind(), wanted->kind());
    const auto stored = tensor->to_host();
    ASSERT_EQ(stored.size(), parts.size()) << row;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      EXPECT_EQ(stored[part].suffix, parts[part].suffix) << row;
      EXPECT_EQ(stored[part].tensor.dtype, parts[part].tensor.dtype) << row;
      EXPECT_EQ(stored[part].tensor.sizes, parts[part].tensor.sizes) << row;
      EXPECT_EQ(gather(stored[part].tensor), gather(parts[part].tensor)) << row;
    }
  }
}

std::size_t walk(const Trace& trace) {
  std::size_t sum = make_child_index(trace).child.size();
  for (const auto& key : site_keys(trace)) sum += key.size();
  for (std::uint32_t row = 0; row < trace.num_ops(); ++row) {
    const OpId op{row};
    sum += op_label(trace, op).size() + raw_label(trace, op).size() + func_name(trace, op).size();
    sum += parents(trace, op).size() + module_stack(trace, op).size() + trace.shapes[trace.ops.shape[row]].size();
  }
  for (std::uint32_t call = 0; call < trace.module_calls.module.size(); ++call) {
    sum += module_call_label(trace, ModuleCallId{call}).size();
  }
  const auto count_words = [&](const ArgHeader&, std::span<const std::int64_t> words) { sum += words.size(); };
  for (std::uint32_t row = 0; row < trace.num_ops(); ++row) for_each_arg(op_args(trace, OpId{row}), count_words);
  for (std::size_t row = 0; row < trace.flow.tag.size(); ++row) for_each_arg(flow_args(trace, row), count_words);
  for (std::uint32_t row = 0; trace.payload_source != nullptr && row < trace.payload_source->size(); ++row) {
    try {
      if (const auto tensor = trace.payload_source->tensor(PayloadId{row})) {
        for (const auto& part : tensor->to_host()) {
          for (const auto byte : part.tensor.storage) sum += std::to_integer<std::size_t>(byte);
        }
      }
    } catch (const Error&) {
      ++sum;
    }
  }
  return sum;
}

}  // namespace tl::test

#include <algorithm>
#include <random>

#include "support/trace_fixtures.h"
#include "trace/args.h"

namespace tl::test {
namespace {

using Random = std::mt19937_64;

std::uint64_t below(Random& random, std::uint64_t limit) { return random() % limit; }
bool one_in(Random& random, std::uint64_t times) { return below(random, times) == 0; }

/// Runs a random program: calls nest, instructions repeat, most results are used again.
class Generator {
 public:
  Generator(std::uint64_t seed, std::size_t operations) : random_(seed), operations_(operations) {}

  Capture make() {
    make_program();
    enter_call(0, -1);
    for (const auto* role : {"input.x", "input.batch.mask"}) {
      auto event = source(OpKind::kInput, role);
      capture_.events.push_back(event);
    }
    while (capture_.events.size() < operations_) step();
    while (!open_branches_.empty()) close_branch();
    while (!open_calls_.empty()) leave_call();
    for (std::uint32_t i = 0; i < 3; ++i) {
      CaptureOutput output;
      output.role = "output." + std::to_string(i);
      output.op = static_cast<std::uint32_t>(below(random_, capture_.events.size()));
      output.shape = capture_.events[output.op].shape;
      output.dtype = DType::kF32;
      if (i == 2) {
        output.op = OpId::kNone;
        output.param = 0;
      }
      capture_.outputs.push_back(output);
    }
    capture_.run.health.nonfinite = {"type1_1_3_raw"};
    return std::move(capture_);
  }

 private:
  void make_program() {
    auto& c = capture_;
    for (int i = 0; i < 12; ++i) {
      c.call_sites.file.push_back(c.strings.intern("model file.py"));
      c.call_sites.line.push_back(5 + i / 2);
      c.call_sites.column.push_back(one_in(random_, 3) ? -1 : i);
      c.call_sites.column_end.push_back(i + 4);
      c.call_sites.function.push_back(c.strings.intern("forward"));
    }
    for (int i = 0; i < 5; ++i) {
      const auto address = i == 0 ? std::string("self") : "block." + std::to_string(i);
      c.modules.address.push_back(c.strings.intern(address));
      c.modules.all_addresses.push_back(c.strings.intern(address));
      c.modules.class_name.push_back(c.strings.intern("Block"));
      c.modules.qualified_class.push_back(c.strings.intern("__torch__.Block"));
      c.modules.parent.push_back(i == 0 ? -1 : 0);
      c.modules.training.push_back(0);
      c.modules.num_calls.push_back(0);
      add_context(i, -1, -1);
      add_context(i, 2 * i, i);
    }
    for (int i = 0; i < 20; ++i) add_instruction(i);
    for (int i = 0; i < 2; ++i) {
      c.params.address.push_back(c.strings.intern("fc.weight" + std::to_string(i)));
      c.params.all_addresses.push_back(c.params.address.back());
      c.params.module.push_back(0);
      c.params.kind.push_back(0);
      c.params.dtype.push_back(static_cast<std::uint8_t>(DType::kF32));
      c.params.shape.push_back(shape());
      c.params.bytes.push_back(64);
      c.params.trainable.push_back(1);
      c.params.digest.push_back(-1);
      c.buffers.address.push_back(c.strings.intern("bn.mean" + std::to_string(i)));
      c.buffers.module.push_back(1);
      c.buffers.dtype.push_back(static_cast<std::uint8_t>(DType::kF32));
      c.buffers.shape.push_back(shape());
      c.buffers.bytes.push_back(16);
      c.buffers.num_versions.push_back(0);
      c.buffers.last_op.push_back(-1);
    }
  }

  void add_context(std::int32_t module, std::int32_t parent, std::int32_t site) {
    capture_.site_contexts.module.push_back(module);
    capture_.site_contexts.parent.push_back(parent);
    capture_.site_contexts.call_site.push_back(site);
  }

  void add_instruction(int i) {
    auto& c = capture_;
    const auto type = "type" + std::to_string(i % 7);
    c.instructions.op_name.push_back(c.strings.intern("aten::" + type + "_"));
    c.instructions.overload.push_back(c.strings.intern(i % 2 == 0 ? "" : "Tensor"));
    c.instructions.func_name.push_back(c.strings.intern(type + "_"));
    c.instructions.layer_type.push_back(c.strings.intern(type));
    c.instructions.call_site.push_back(i % 12);
    c.instructions.arg_template.push_back(c.strings.intern("self=%0, \"dim\"=$1\n"));
    c.instructions.value_names.push_back(c.strings.intern(i % 4 == 0 ? "" : "y,state"));
    c.instructions.flags.push_back(i % 3 == 0 ? kInstrElseBlock : kInstrDispatched);
  }

  std::int32_t shape() {
    std::vector<std::int64_t> dims(below(random_, 3));
    for (auto& dim : dims) dim = static_cast<std::int64_t>(below(random_, 4));
    return capture_.shapes.intern(dims);
  }

  void enter_call(std::int32_t module, std::int32_t parent) {
    auto& calls = capture_.module_calls;
    const auto index = ++calls_of_module_[static_cast<std::size_t>(module)];
    open_calls_.push_back(static_cast<std::int32_t>(calls.module.size()));
    calls.module.push_back(module);
    calls.call_index.push_back(index);
    calls.parent_call.push_back(parent);
    calls.call_site.push_back(parent < 0 ? -1 : 3);
    calls.first_op.push_back(static_cast<std::int32_t>(capture_.events.size()));
    calls.end_op.push_back(-1);
    calls.output_op.push_back(-1);
    capture_.module_call_seconds.push_back(0.25);
  }

  void leave_call() {
    const auto call = static_cast<std::size_t>(open_calls_.back());
    open_calls_.pop_back();
    const auto end = static_cast<std::int32_t>(capture_.events.size());
    capture_.module_calls.end_op.mut(call) = end;
    if (end > capture_.module_calls.first_op[call]) capture_.module_calls.output_op.mut(call) = end - 1;
  }

  void close_branch() {
    capture_.branches[open_branches_.back()].end_op = static_cast<std::uint32_t>(capture_.events.size());
    open_branches_.pop_back();
  }

  CaptureEvent source(OpKind kind, const std::string& address) {
    CaptureEvent event;
    event.kind = kind;
    event.module_call = static_cast<std::uint32_t>(open_calls_.back());
    event.shape = static_cast<std::uint32_t>(shape());
    event.dtype = DType::kF32;
    event.address = static_cast<std::uint32_t>(capture_.strings.intern(address));
    event.edge_begin = static_cast<std::uint32_t>(capture_.edges.size());
    event.args_begin = static_cast<std::uint32_t>(capture_.args.size());
    return event;
  }

  void step() {
    if (open_calls_.size() < 4 && one_in(random_, 6)) {
      enter_call(static_cast<std::int32_t>(below(random_, 5)), open_calls_.back());
      call_depth_of_branches_.push_back(open_branches_.size());
    } else if (open_calls_.size() > 1 && open_branches_.size() == call_depth_of_branches_.back() &&
               one_in(random_, 4)) {
      leave_call();
      call_depth_of_branches_.pop_back();
    }
    const auto floor = call_depth_of_branches_.empty() ? 0 : call_depth_of_branches_.back();
    if (one_in(random_, 9)) {
      open_branches_.push_back(capture_.branches.size());
      const auto at = static_cast<std::uint32_t>(capture_.events.size());
      capture_.branches.push_back(
          {static_cast<std::uint32_t>(below(random_, 3)), 0, static_cast<std::uint32_t>(open_calls_.back()),
           one_in(random_, 2) ? at - 1 : OpId::kNone, at, at, static_cast<std::uint8_t>(below(random_, 2))});
    } else if (open_branches_.size() > floor && one_in(random_, 3)) {
      close_branch();
    }
    if (one_in(random_, 7)) host_value();
    if (one_in(random_, 10)) {
      capture_.events.push_back(source(OpKind::kBuffer, "bn.mean" + std::to_string(below(random_, 2))));
    } else {
      operation();
    }
    if (one_in(random_, 12)) {
      auto event = source(OpKind::kBuffer, "bn.mean0");
      event.flags = kOpBufferWrite | kOpFusedWrite;
      capture_.edges.push_back({static_cast<std::uint32_t>(capture_.events.size() - 1), -1, -1});
      capture_.events.push_back(event);
    }
  }

  void host_value() {
    auto& flow = capture_.flow;
    flow.instruction.push_back(static_cast<std::int32_t>(below(random_, 20)));
    flow.before_op.push_back(static_cast<std::int32_t>(capture_.events.size()));
    flow.args_begin.push_back(static_cast<std::int32_t>(capture_.flow_args.size()));
    if (one_in(random_, 2)) {
      capture_.flow_args.push_back(ArgHeader{ArgTag::kOp, 0}.pack());
      capture_.flow_args.push_back(static_cast<std::int64_t>(below(random_, capture_.events.size())));
    }
    const bool list = one_in(random_, 4);
    flow.tag.push_back(static_cast<std::uint8_t>(list ? ArgTag::kIntList : ArgTag::kDouble));
    flow.value.push_back(static_cast<std::int64_t>(list ? capture_.flow_args.size() : random_()));
    if (list) {
      capture_.flow_args.push_back(ArgHeader{ArgTag::kIntList, 0xffff}.pack());
      capture_.flow_args.push_back(1);
      capture_.flow_args.push_back(7);
    }
  }

  void operation() {
    const auto module = capture_.module_calls.module[static_cast<std::size_t>(open_calls_.back())];
    const auto slots = one_in(random_, 6) ? 2 + below(random_, 2) : 1;
    const auto instruction = below(random_, 20);
    const auto context = static_cast<std::uint32_t>(2 * module) + static_cast<std::uint32_t>(below(random_, 2));
    const auto first = capture_.events.size();
    const bool island = one_in(random_, 5);
    for (std::uint64_t slot = 0; slot < slots; ++slot) {
      auto event = source(OpKind::kOperation, "unused");
      event.address = StringId::kNone;
      event.instruction = static_cast<std::uint32_t>(instruction);
      event.site_context = context;
      event.slot = static_cast<std::uint16_t>(slot);
      event.num_slots = static_cast<std::uint16_t>(slots);
      event.duration_ns = static_cast<std::uint32_t>(below(random_, 5000));
      for (std::uint64_t arg = 0; !island && arg < 1 + below(random_, 3); ++arg) {
        const auto window = std::min<std::uint64_t>(first, 12);
        capture_.edges.push_back({static_cast<std::uint32_t>(first - 1 - below(random_, window)),
                                  static_cast<std::int16_t>(arg),
                                  static_cast<std::int16_t>(one_in(random_, 4) ? 1 : -1)});
      }
      if (slot == 0) arguments();
      capture_.events.push_back(event);
      if (one_in(random_, 8)) {
        capture_.param_uses.push_back(
            {static_cast<std::uint32_t>(capture_.events.size() - 1), static_cast<std::uint32_t>(below(random_, 2)), 1});
      }
    }
  }

  void arguments() {
    auto& args = capture_.args;
    const auto flows = capture_.flow.instruction.size();
    if (one_in(random_, 3)) {
      args.push_back(
          ArgHeader{ArgTag::kIntList, 2, flows == 0 ? ArgHeader::kNoFlow : static_cast<std::uint32_t>(flows - 1)}
              .pack());
      args.push_back(2);
      args.push_back(3);
      args.push_back(-1);
    }
    if (one_in(random_, 4)) {
      args.push_back(ArgHeader{ArgTag::kString, 3}.pack());
      args.push_back(capture_.strings.intern("reflect \"x\""));
      args.push_back(ArgHeader{ArgTag::kNone, 4}.pack());
    }
  }

  Random random_;
  std::size_t operations_;
  Capture capture_;
  std::int32_t calls_of_module_[5] = {};
  std::vector<std::int32_t> open_calls_;
  std::vector<std::size_t> open_branches_;
  std::vector<std::size_t> call_depth_of_branches_;
};

}  // namespace

Capture random_capture(std::uint64_t seed, std::size_t operations) { return Generator(seed, operations).make(); }

Trace random_columns(std::uint64_t seed, std::size_t rows) {
  Random random(seed);
  Trace trace;
  for (const auto* text : {"alpha", "", "with space", "quote\"back\\slash", "line\nbreak", "-", "end", "#3", "größe"}) {
    trace.strings.intern(text);
  }
  for (const std::vector<std::int64_t>& dims : {std::vector<std::int64_t>{}, {2, 3}, {0}, {-1, 9223372036854775807}}) {
    trace.shapes.intern(dims);
  }
  for_each_table(trace, [&](std::string_view table, auto& columns, auto&& visit) {
    visit(columns, [&](std::string_view field, auto& column, std::string_view unit, std::string_view) {
      using Value = std::remove_cvref_t<decltype(column[0])>;
      for (std::size_t row = 0; row < rows; ++row) {
        auto value = static_cast<std::int64_t>(random());
        if (unit == "string") value = static_cast<std::int64_t>(below(random, trace.strings.size() + 1)) - 1;
        if (unit == "row of shapes") value = static_cast<std::int64_t>(below(random, trace.shapes.size() + 1)) - 1;
        if (unit.starts_with("row of ") && unit != "row of shapes")
          value = static_cast<std::int64_t>(below(random, rows + 1)) - 1;
        if (field == "edge_begin") value = static_cast<std::int64_t>(row);
        if (table == "param_uses" && field == "op") value = static_cast<std::int64_t>(row);
        if (field == "args_begin") value = 0;
        if (field == "tag") value = 1;
        column.push_back(static_cast<Value>(value));
      }
    });
  });
  trace.graph_shape_hash = "0123";
  trace.finished = one_in(random, 2);
  trace.run.model_file = "a b.pt";
  trace.run.inputs.push_back({"input.x", "x.safetensors:x", DType::kF32, {2, 3}, "", 0.1, -3.5e300, {}});
  trace.run.outputs.push_back({"output", "", DType::kBF16, {}, "", {}, {}, {{3, 0.5}, {1, 1e-9}}});
  trace.run.outcome.status = "failed";
  trace.run.health.unknown_ops = {"my::op", "other op"};
  return trace;
}

}  // namespace tl::test

// Before: the graph is final. After: graph_shape_hash is a digest of its shape: the Ops in order with their kind,
// normalised function name (layer type), output slot, module address and role or buffer address, and their edges with
// argument positions. It is blind to values, shapes, element types, places in the source and times, so two runs of one
// program that take the same path have the same hash. Last but for freeze, because nothing after may change what it
// covers.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/digest.h"
#include "postprocess/step.h"

namespace tl {
namespace {

/// Words and texts into one digest. A text is spelled out at its first use and is a number after, so the digest depends
/// on texts alone, not on the order of the string pool.
class ShapeDigest {
 public:
  explicit ShapeDigest(std::size_t strings) : words_(kWords), number_of_(strings, 0) {}

  void word(std::int64_t value) {
    if (used_ == kWords) flush();
    words_[used_++] = static_cast<std::uint32_t>(value);
  }

  void text(const StringPool& strings, std::int32_t code) {
    if (code < 0) {
      word(-1);
      return;
    }
    auto& number = number_of_[static_cast<std::size_t>(code)];
    if (number != 0) {
      word(number);
      return;
    }
    number = ++texts_;
    const auto text = strings[code];
    word(number);
    word(static_cast<std::int64_t>(text.size()));
    flush();
    digester_.update(std::as_bytes(std::span(text)));
  }

  std::string hex() {
    flush();
    return digester_.hex();
  }

 private:
  static constexpr std::size_t kWords = 1u << 14;

  void flush() {
    digester_.update(std::as_bytes(std::span(words_).first(used_)));
    used_ = 0;
  }

  Digester digester_;
  std::vector<std::uint32_t> words_;
  std::size_t used_ = 0;
  std::vector<std::int32_t> number_of_;
  std::int32_t texts_ = 0;
};

std::int32_t layer_type_code(const Trace& trace, std::size_t op) {
  const auto instruction = trace.ops.instruction[op];
  return instruction < 0 ? -1 : trace.instructions.layer_type[static_cast<std::size_t>(instruction)];
}

std::int32_t module_address_code(const Trace& trace, std::size_t op) {
  const auto call = trace.ops.module_call[op];
  if (call < 0 || static_cast<std::size_t>(call) >= trace.module_calls.module.size()) return -1;
  const auto module = trace.module_calls.module[static_cast<std::size_t>(call)];
  return module < 0 ? -1 : trace.modules.address[static_cast<std::size_t>(module)];
}

}  // namespace

void hash_graph(StepContext& context) {
  auto& trace = context.trace;
  ShapeDigest digest(trace.strings.size());
  digest.word(static_cast<std::int64_t>(trace.num_ops()));
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
    digest.word(trace.ops.kind[op] | std::int64_t{trace.ops.slot[op]} << 8);
    digest.text(trace.strings, layer_type_code(trace, op));
    digest.text(trace.strings, module_address_code(trace, op));
    digest.text(trace.strings, trace.ops.address[op]);
    digest.word(static_cast<std::int64_t>(end - begin));
    for (auto edge = begin; edge < end; ++edge) {
      digest.word(trace.edges.parent[edge]);
      digest.word(std::int64_t{static_cast<std::uint16_t>(trace.edges.arg[edge])} << 16 |
                  static_cast<std::uint16_t>(trace.edges.sub[edge]));
    }
  }
  trace.graph_shape_hash = digest.hex();
}

}  // namespace tl

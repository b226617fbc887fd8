// The grammar of selectors: what is read must read back from its canonical text, and resolving it answers.

#include <string>

#include "fuzz_input.h"
#include "select/live_selector.h"
#include "select/selection.h"
#include "trace/text.h"

namespace {

constexpr const char* kTrace =
    "trace 1\n"
    "module self class_name=Net num_calls=1\n"
    "module enc class_name=Block parent=self all_addresses=\"enc,alias\" num_calls=1\n"
    "context c0 module=self\n"
    "context c1 module=enc\n"
    "instruction aten::linear func_name=linear layer_type=linear\n"
    "instruction aten::relu_ func_name=relu_ layer_type=relu\n"
    "param enc.weight module=enc dtype=f32 shape=[4,4] bytes=64 trainable=1\n"
    "buffer enc.count module=enc dtype=i64 shape=[] bytes=8 num_versions=1\n"
    "call self:1 first_op=input_1 end_op=end output_op=relu_1_2:2\n"
    "call enc:1 parent_call=self:1 first_op=buffer_1 end_op=relu_1_2:2 output_op=relu_1_2:1\n"
    "layer input_1 num_passes=1 first_op=input_1\n"
    "layer buffer_1 num_passes=1 first_op=buffer_1\n"
    "layer linear_1_1 num_passes=1 first_op=linear_1_1\n"
    "layer relu_1_2 num_passes=2 first_op=relu_1_2:1\n"
    "layer output_1 num_passes=1 first_op=output_1\n"
    "op input_1 input out=f32[2,4] raw=1/1 address=input.x\n"
    "op buffer_1 buffer out=i64[] raw=1/2 address=enc.count call=enc:1 context=c1\n"
    "op linear_1_1 aten::linear out=f32[2,4] parents=input_1@0 params=enc.weight@1 raw=1/3 call=enc:1 context=c1\n"
    "op relu_1_2:1 aten::relu_ out=f32[2,4] parents=linear_1_1@0 raw=1/4 call=enc:1 context=c1\n"
    "op relu_1_2:2 aten::relu_ out=f32[2,4] parents=relu_1_2:1@0 raw=2/5\n"
    "op output_1 output out=f32[2,4] parents=relu_1_2:2@0 raw=1/6 address=output\n";

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const tl::Trace trace = tl::trace_from_text(kTrace);
  static const tl::FieldContext context(trace);
  const auto source = tl::fuzz::as_text(data, size);
  tl::fuzz::answers([&] {
    const auto selector = tl::Selector::parse(source);
    if (tl::Selector::parse(selector.text()).text() != selector.text()) {
      tl::fuzz::finding("the canonical text is read as another selector");
    }
    tl::fuzz::answers([&] { (void)tl::LiveSelector(selector).first_unsettled_term(); });
    for (const auto table : {tl::TableId::k_ops, tl::TableId::k_modules, tl::TableId::k_params}) {
      tl::fuzz::answers([&] { (void)tl::select_rows(selector, context, table); });
    }
  });
  return 0;
}

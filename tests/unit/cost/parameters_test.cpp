#include "cost/parameters.h"

#include <gtest/gtest.h>

#include "trace/text.h"

namespace tl {
namespace {

// The embedding and the head share a weight; a buffer and a constant are no parameters.
constexpr const char* kText = R"(trace 1
module self class_name=Net
module emb class_name=Embedding parent=self
module head class_name=Head parent=self
module head.fc class_name=Linear parent=head
context c0 module=self
instruction aten::linear
param emb.weight all_addresses="emb.weight,head.fc.weight" module=emb dtype=f32 shape=[10,4] bytes=160 trainable=1
param head.fc.bias module=head.fc dtype=f16 shape=[10] bytes=20
param rnn.weight all_addresses="head.fc.extra,head.fc._flat.0" module=head.fc dtype=f32 shape=[2] bytes=8 trainable=1
param CONSTANTS.c0 kind=constant dtype=f32 shape=[1000] bytes=4000
buffer head.mean dtype=f32 shape=[4] bytes=16
call self:1 first_op=x end_op=end
op x input out=f32[2,4]
op a aten::linear out=f32[2,10] parents=x@0 params=emb.weight@1
)";

TEST(Parameters, ATiedTensorCountsOnceInTheTotal) {
  const auto totals = param_totals(trace_from_text(kText));
  EXPECT_EQ(totals.all.elements, 52);
  EXPECT_EQ(totals.all.trainable, 42);
  EXPECT_EQ(totals.all.bytes, 188);
  EXPECT_EQ(totals.all.tensors, 3);
  EXPECT_EQ(totals.used.elements, 40);
  EXPECT_EQ(totals.tied, 1) << "two names in one module are no tie";
  EXPECT_EQ(totals.buffers, 1);
  EXPECT_EQ(totals.buffer_bytes, 16);
}

TEST(Parameters, ATiedTensorCountsInEveryModuleThatHasIt) {
  const auto modules = module_params(trace_from_text(kText));
  EXPECT_EQ(modules[0].inclusive.elements, 52);
  EXPECT_FALSE(modules[0].shares);
  EXPECT_EQ(modules[1].inclusive.elements, 40);
  EXPECT_TRUE(modules[1].shares);
  EXPECT_EQ(modules[2].inclusive.elements, 52);
  EXPECT_EQ(modules[2].own.elements, 0);
  EXPECT_EQ(modules[3].own.elements, 52);
  EXPECT_TRUE(modules[3].shares);
}

TEST(Parameters, OneWithoutAKnownAddressBelongsToItsModule) {
  const auto modules = module_params(
      trace_from_text("trace 1\nmodule self\nmodule m parent=self\nparam odd module=m dtype=f32 shape=[3] bytes=12\n"));
  EXPECT_EQ(modules[0].inclusive.elements, 3);
  EXPECT_EQ(modules[1].own.elements, 3);
}

}  // namespace
}  // namespace tl

// Each formula on shapes whose cost is worked out by hand beside it; the formulas are those of docs/cost.md.
#include <gtest/gtest.h>

#include <string>

#include "cost/op_costs.h"
#include "trace/text.h"

namespace tl {
namespace {

/// A call of one operator: `inputs` are the sizes of its tensors (@position in the schema, +element of a list).
struct Call {
  std::string op;                   ///< aten::relu
  std::string arg_template;         ///< as instructions have it
  std::vector<std::string> inputs;  ///< `[2,3]@0`
  std::string output;               ///< `[2,3]`
  std::string run_time = {};        ///< `1:ints(2,2)`
  std::string overload = {};
};

OpCost cost_of(const Call& call) {
  std::string text = "trace 1\nmodule self\ncontext c0 module=self\ninstruction " + call.op + " overload=\"" +
                     call.overload + "\" arg_template=\"" + call.arg_template + "\"\n";
  text += "call self:1 first_op=y end_op=end\n";
  std::string parents;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const auto& input = call.inputs[i];
    const auto at = input.find('@');
    text += "op i" + std::to_string(i) + " input out=f32" + input.substr(0, at) + "\n";
    parents += (i > 0 ? "," : "") + ("i" + std::to_string(i)) + input.substr(at);
  }
  text += "op y " + call.op + " out=f32" + call.output + (parents.empty() ? "" : " parents=" + parents) +
          (call.run_time.empty() ? "" : " args=[" + call.run_time + "]") + "\n";
  const auto trace = trace_from_text(text);
  return op_costs(trace).back();
}

void expect(const Call& call, Count flops, Count macs) {
  const auto cost = cost_of(call);
  EXPECT_EQ(cost.flops, flops) << call.op << " " << call.output;
  EXPECT_EQ(cost.macs, macs) << call.op << " " << call.output;
}

TEST(FlopFormulas, ElementsOfTheOutput) {
  expect({"aten::add", "self=%0, other=%1, alpha=1", {"[2,3]@0", "[3]@1"}, "[2,3]"}, 6, 0);
  expect({"aten::relu_", "self=%0", {"[2,3]@0"}, "[2,3]"}, 6, 0);
  expect({"aten::pow", "self=%0, exponent=2", {"[5]@0"}, "[5]"}, 10, 0);
  expect({"aten::sigmoid", "self=%0", {"[5]@0"}, "[5]"}, 20, 0);
  expect({"aten::gelu", "self=%0", {"[5]@0"}, "[5]"}, 70, 0);
  expect({"aten::tanh", "self=%0", {"[]@0"}, "[]"}, 6, 0);
  expect({"aten::exp", "self=%0", {"[0,4]@0"}, "[0,4]"}, 0, 0);
  expect({"aten::max", "self=%0, other=%1", {"[4]@0", "[2,4]@1"}, "[2,4]", "", "other"}, 8, 0);
}

TEST(FlopFormulas, ElementsOfTheInput) {
  expect({"aten::mean", "self=%0, dim=[1]", {"[2,3]@0"}, "[2]"}, 6, 0);
  expect({"aten::var", "self=%0", {"[2,3]@0"}, "[]"}, 18, 0);
  expect({"aten::linalg_vector_norm", "self=%0", {"[2,3]@0"}, "[]"}, 12, 0);
  expect({"aten::adaptive_avg_pool2d", "self=%0, output_size=[1, 1]", {"[1,512,7,7]@0"}, "[1,512,1,1]"}, 25088, 0);
}

TEST(FlopFormulas, ElementsOfTheSource) {
  expect({"aten::scatter_add", "self=%0, dim=0, index=%2, src=%3", {"[9]@0", "[4]@2", "[4]@3"}, "[9]"}, 4, 0);
  expect({"aten::index_add_", "self=%0, dim=0, index=%2, source=%3", {"[9,2]@0", "[4]@2", "[4,2]@3"}, "[9,2]"}, 8, 0);
}

TEST(FlopFormulas, NothingIsComputedByMoves) {
  expect({"aten::cat", "tensors=%0, dim=0", {"[2]@0+0", "[3]@0+1"}, "[5]"}, 0, 0);
  expect({"aten::embedding", "weight=%0, indices=%1", {"[30,16]@0", "[5]@1"}, "[5,16]"}, 0, 0);
  expect({"aten::zeros", "size=[4]", {}, "[4]"}, 0, 0);
}

TEST(FlopFormulas, Linear) {
  // 6 rows * 5 outputs * 4 inputs = 120 multiply-adds, 30 additions of the bias.
  expect({"aten::linear", "input=%0, weight=%1, bias=%2", {"[2,3,4]@0", "[5,4]@1", "[5]@2"}, "[2,3,5]"}, 270, 120);
  expect({"aten::linear", "input=%0, weight=%1, bias=None", {"[2,3,4]@0", "[5,4]@1"}, "[2,3,5]"}, 240, 120);
  expect({"quantized::linear_dynamic", "X=%0, W_prepack=$1", {"[2,16]@0"}, "[2,32]"}, 2048, 1024);
  expect({"quantized::linear_relu", "X=%0, W_prepack=$1", {"[2,16]@0"}, "[2,32]"}, 2048 + 64, 1024);
}

TEST(FlopFormulas, Convolution) {
  // The first layer of ResNet-18: 64*112*112 outputs, 3*7*7 products each.
  const std::vector<std::string> resnet = {"[1,3,224,224]@0", "[64,3,7,7]@1"};
  expect({"aten::conv2d", "input=%0, weight=%1, bias=None", resnet, "[1,64,112,112]"}, 236027904, 118013952);
  const std::vector<std::string> grouped = {"[2,8,10]@0", "[12,2,3]@1", "[12]@2"};
  expect({"aten::_convolution",
          "input=%0, weight=%1, bias=%2, stride=[1], padding=[1], dilation=[1], transposed=False, groups=4", grouped,
          "[2,12,10]"},
         2 * 240 * 6 + 240, 240 * 6);
  expect({"quantized::conv2d", "qx=%0, packed_weight=$1", {"[1,3,8,8]@0"}, "[1,8,8,8]"}, {}, {});
}

TEST(FlopFormulas, TransposedConvolution) {
  // 2*4*5 inputs meet 6*3 weights each; 2*6*11 biases.
  const std::vector<std::string> inputs = {"[2,4,5]@0", "[4,6,3]@1", "[6]@2"};
  expect({"aten::conv_transpose1d", "input=%0, weight=%1, bias=%2", inputs, "[2,6,11]"}, 2 * 720 + 132, 720);
  expect({"aten::convolution", "input=%0, weight=%1, bias=%2, transposed=True", inputs, "[2,6,11]"}, 2 * 720 + 132,
         720);
  expect({"aten::convolution", "input=%0, weight=%1, bias=%2, transposed=$3", inputs, "[2,6,11]", "3:bool(1)"},
         2 * 720 + 132, 720);
}

TEST(FlopFormulas, Products) {
  expect({"aten::mm", "self=%0, mat2=%1", {"[3,4]@0", "[4,5]@1"}, "[3,5]"}, 120, 60);
  expect({"aten::matmul", "self=%0, other=%1", {"[2,1,3,4]@0", "[7,4,5]@1"}, "[2,7,3,5]"}, 1680, 840);
  expect({"aten::matmul", "self=%0, other=%1", {"[4]@0", "[4]@1"}, "[]"}, 8, 4);
  expect({"aten::matmul", "self=%0, other=%1", {"[4]@0", "[4,5]@1"}, "[5]"}, 40, 20);
  expect({"aten::mv", "self=%0, vec=%1", {"[3,4]@0", "[4]@1"}, "[3]"}, 24, 12);
  expect({"aten::addmm", "self=%0, mat1=%1, mat2=%2", {"[5]@0", "[3,4]@1", "[4,5]@2"}, "[3,5]"}, 135, 60);
  expect({"aten::baddbmm", "self=%0, batch1=%1, batch2=%2", {"[]@0", "[2,3,4]@1", "[2,4,5]@2"}, "[2,3,5]"}, 270, 120);
  expect({"aten::addbmm", "self=%0, batch1=%1, batch2=%2", {"[]@0", "[2,3,4]@1", "[2,4,5]@2"}, "[3,5]"}, 255, 120);
  expect({"aten::addmv", "self=%0, mat=%1, vec=%2", {"[3]@0", "[3,4]@1", "[4]@2"}, "[3]"}, 27, 12);
}

TEST(FlopFormulas, Attention) {
  // 2*4 heads, 6 queries, 7 keys: 336 scores of 8 products; 336 weights of 9 products; 6 operations a score.
  const std::vector<std::string> inputs = {"[2,4,6,8]@0", "[2,4,7,8]@1", "[2,4,7,9]@2"};
  expect({"aten::scaled_dot_product_attention", "query=%0, key=%1, value=%2", inputs, "[2,4,6,9]"},
         2 * 336 * 17 + 6 * 336, 336 * 17);
}

TEST(FlopFormulas, Windows) {
  const std::vector<std::string> input = {"[1,64,112,112]@0"};
  expect({"aten::max_pool2d", "self=%0, kernel_size=[3, 3], stride=[2, 2]", input, "[1,64,56,56]"}, 200704 * 9, 0);
  expect({"aten::max_pool2d", "self=%0, kernel_size=[3], stride=[2, 2]", input, "[1,64,56,56]"}, 200704 * 9, 0);
  expect({"aten::avg_pool2d", "self=%0, kernel_size=$1", input, "[1,64,56,56]", "1:ints(2,3)"}, 200704 * 6, 0);
  expect({"aten::avg_pool2d", "self=%0, kernel_size=$1", input, "[1,64,56,56]"}, {}, {});
}

TEST(FlopFormulas, Sorting) {
  expect({"aten::topk", "self=%0, k=1, dim=1", {"[2,2]@0"}, "[2,1]"}, 2, 0);
  expect({"aten::sort", "self=%0, dim=0, descending=False", {"[8,3]@0"}, "[8,3]"}, 24 * 3, 0);
  expect({"aten::sort", "self=%0, dim=-1", {"[3,8]@0"}, "[3,8]"}, 24 * 3, 0);
  expect({"aten::sort", "self=%0, dim=5", {"[3,8]@0"}, "[3,8]"}, {}, {});
  expect({"aten::sort", "self=%0, dim=0", {"[1]@0"}, "[1]"}, 0, 0);
}

TEST(FlopFormulas, Einsum) {
  const auto with = [](const std::string& equation) { return "equation=\\\"" + equation + "\\\", tensors=%1"; };
  expect({"aten::einsum", with("bij,bjk->bik"), {"[2,3,4]@1+0", "[2,4,5]@1+1"}, "[2,3,5]"}, 240, 120);
  expect({"aten::einsum", with("...ij,jk->...ik"), {"[6,2,3,4]@1+0", "[4,5]@1+1"}, "[6,2,3,5]"}, 1440, 720);
  expect({"aten::einsum", with("i,i->"), {"[4]@1+0", "[4]@1+1"}, "[]"}, 8, 4);
  expect({"aten::einsum", with("ij->ji"), {"[4,3]@1+0"}, "[3,4]"}, {}, {});
  expect({"aten::einsum", with("ijk,jk->ik"), {"[4,3]@1+0", "[3,3]@1+1"}, "[3,4]"}, {}, {});
}

TEST(FlopFormulas, RecurrentLayersAndCells) {
  // As counted for the parts: two linears with bias, 32 operations a hidden unit (4 sums of the two linears, 3
  // sigmoids, tanh, 2 products, 1 sum, tanh, product).
  const std::vector<std::string> cell = {"[2,4]@0",  "[2,5]@1+0", "[2,5]@1+1", "[20,4]@2",
                                         "[20,5]@3", "[20]@4",    "[20]@5"};
  expect({"aten::lstm_cell", "input=%0, hx=%1, w_ih=%2, w_hh=%3, b_ih=%4, b_hh=%5", cell, "[2,5]"},
         2 * 360 + 2 * 40 + 2 * 5 * 32, 360);
  const std::vector<std::string> layer = {"[2,3,4]@0",  "[1,2,5]@1+0", "[1,2,5]@1+1", "[20,4]@2+0",
                                          "[20,5]@2+1", "[20]@2+2",    "[20]@2+3"};
  expect({"aten::lstm", "input=%0, hx=%1, params=%2, has_biases=True", layer, "[2,3,5]"}, 3360, 1080);
  const std::vector<std::string> projected = {"[3,4]@0", "[20,4]@2+0", "[20,2]@2+1", "[2,5]@2+2"};
  expect({"aten::lstm", "input=%0, hx=%1, params=%2, has_biases=False", projected, "[3,2]"},
         2 * 3 * (80 + 40 + 10) + 3 * 5 * 32, 3 * (80 + 40 + 10));
  const std::vector<std::string> gru = {"[2,4]@0", "[2,5]@1", "[15,4]@2", "[15,5]@3"};
  expect({"aten::gru_cell", "input=%0, hx=%1, w_ih=%2, w_hh=%3, b_ih=None, b_hh=None", gru, "[2,5]"},
         2 * 270 + 2 * 5 * 21, 270);
  const std::vector<std::string> rnn = {"[2,4]@0", "[2,5]@1", "[5,4]@2", "[5,5]@3"};
  expect({"aten::rnn_tanh_cell", "input=%0, hx=%1, w_ih=%2, w_hh=%3", rnn, "[2,5]"}, 2 * 90 + 70, 90);
  expect({"aten::rnn_relu_cell", "input=%0, hx=%1, w_ih=%2, w_hh=%3", rnn, "[2,5]"}, 2 * 90 + 20, 90);
}

TEST(FlopFormulas, WhatTheRecordingLacksIsUnknown) {
  expect({"aten::linear", "input=%0, weight=%1, bias=None", {}, "[2,5]"}, {}, {});
  expect({"aten::conv2d", "input=%0, weight=%1", {"[1,3,8,8]@0"}, "[1,4,8,8]"}, {}, {});
  expect({"aten::mean", "self=%0", {}, "[]"}, {}, {});
  expect({"aten::lstm", "", {"[2,3,4]@0", "[20,4]@2"}, "[2,3,5]"}, {}, {});
  expect({"aten::einsum", "", {"[4]@1+0", "[4]@1+1"}, "[]"}, {}, {});
}

TEST(FlopFormulas, CountsThatDoNotFitAreUnknown) {
  const std::string huge = "[3000000000,3000000000]";
  expect({"aten::add", "self=%0", {huge + "@0"}, huge}, 9000000000000000000, 0);
  expect({"aten::pow", "self=%0", {huge + "@0"}, huge}, {}, {});
  expect({"aten::mm", "self=%0, mat2=%1", {huge + "@0", huge + "@1"}, huge}, {}, {});
  expect({"aten::add", "self=%0", {"[-3]@0"}, "[-3]"}, {}, {});
  EXPECT_EQ(cost_of({"aten::add", "self=%0", {huge + "@0"}, huge}).bytes_written, INT64_MAX);
}

}  // namespace
}  // namespace tl

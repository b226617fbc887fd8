#include "ops/op_semantics.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string_view>

namespace tl {
namespace {

struct NameCase {
  std::string_view qualified_name;
  std::string_view func_name;
  std::string_view layer_type;
};

// Printed for a failing case.
void PrintTo(const NameCase& name_case, std::ostream* out) { *out << name_case.qualified_name; }

class OpNames : public testing::TestWithParam<NameCase> {};

TEST_P(OpNames, AreThoseOfPython) {
  const auto& [qualified_name, func_name, layer_type] = GetParam();
  EXPECT_EQ(func_name_of(qualified_name), func_name);
  EXPECT_EQ(layer_type_of(func_name_of(qualified_name)), layer_type);
}

// What torchlens 2.36.1 (Python) calls the function, beside the operator that torch.jit.trace of torch 2.13.0 records
// for it.
INSTANTIATE_TEST_SUITE_P(
    FunctionsOfPython, OpNames,
    testing::Values(
        NameCase{"aten::linear", "linear", "linear"}, NameCase{"aten::relu_", "relu_", "relu"},
        NameCase{"aten::batch_norm", "batch_norm", "batchnorm"}, NameCase{"aten::conv2d", "conv2d", "conv2d"},
        NameCase{"aten::adaptive_avg_pool2d", "adaptive_avg_pool2d", "adaptiveavgpool2d"},
        NameCase{"aten::upsample_nearest2d", "interpolate", "interpolate"},
        NameCase{"aten::_upsample_bilinear2d_aa", "interpolate", "interpolate"},
        NameCase{"aten::__and__", "__and__", "and"},
        NameCase{"aten::scaled_dot_product_attention", "scaled_dot_product_attention", "scaleddotproductattention"},
        NameCase{"aten::max_pool2d_with_indices", "max_pool2d", "maxpool2d"},
        NameCase{"aten::im2col", "unfold", "unfold"}, NameCase{"aten::col2im", "fold", "fold"},
        NameCase{"aten::cross_entropy_loss", "cross_entropy", "crossentropy"},
        NameCase{"aten::nll_loss_nd", "nll_loss", "nllloss"}, NameCase{"aten::log_sigmoid", "logsigmoid", "logsigmoid"},
        NameCase{"aten::fft_fft", "fft", "fft"}, NameCase{"aten::fft_irfft", "irfft", "irfft"},
        NameCase{"aten::linalg_vector_norm", "vector_norm", "vectornorm"},
        NameCase{"aten::linalg_norm", "norm", "norm"}, NameCase{"aten::special_entr", "entr", "entr"},
        NameCase{"aten::numpy_T", "T", "t"}, NameCase{"aten::matrix_H", "H", "h"},
        NameCase{"aten::feature_dropout", "feature_dropout", "featuredropout"},
        NameCase{"aten::lstm_cell", "lstm_cell", "lstmcell"}));

// The functional form by the documentation of torch.nn.functional; Python has no function of these names.
INSTANTIATE_TEST_SUITE_P(
    InternalForms, OpNames,
    testing::Values(NameCase{"aten::_convolution", "conv", "conv"},
                    NameCase{"aten::cudnn_convolution_transpose", "conv_transpose", "convtranspose"},
                    NameCase{"aten::thnn_conv2d", "conv2d", "conv2d"}, NameCase{"aten::_softmax", "softmax", "softmax"},
                    NameCase{"aten::_log_softmax", "log_softmax", "logsoftmax"},
                    NameCase{"aten::native_layer_norm", "layer_norm", "layernorm"},
                    NameCase{"aten::_native_batch_norm_legit_no_training", "batch_norm", "batchnorm"},
                    NameCase{"aten::native_group_norm", "group_norm", "groupnorm"},
                    NameCase{"aten::_to_copy", "to", "to"}, NameCase{"aten::constant_pad_nd", "pad", "pad"},
                    NameCase{"aten::_embedding_bag", "embedding_bag", "embeddingbag"},
                    NameCase{"aten::_scaled_dot_product_flash_attention_for_cpu", "scaled_dot_product_attention",
                             "scaleddotproductattention"},
                    NameCase{"quantized::conv2d", "conv2d", "conv2d"},
                    NameCase{"quantized::conv2d_relu", "conv2d_relu", "conv2drelu"},
                    NameCase{"quantized::linear_dynamic", "linear", "linear"},
                    NameCase{"quantized::add", "add", "add"}));

TEST(FuncNameOf, AnOperatorWithoutARowKeepsItsOwnName) {
  EXPECT_EQ(func_name_of("torchvision::nms"), "nms");
  EXPECT_EQ(func_name_of("prim::NumToTensor"), "NumToTensor");
  EXPECT_EQ(func_name_of("relu"), "relu");
  EXPECT_EQ(func_name_of(""), "");
}

TEST(FuncNameOf, APythonModulesPrefixIsTakenOffInAtenOnly) {
  EXPECT_EQ(func_name_of("zoo::fft_shift"), "fft_shift");
  EXPECT_EQ(func_name_of("aten::fft_"), "fft_");
}

TEST(FuncNameOf, TheOverloadDoesNotMatter) {
  EXPECT_EQ(func_name_of("aten::add.Tensor"), "add");
  EXPECT_EQ(func_name_of("aten::upsample_nearest2d.vec"), "interpolate");
  EXPECT_EQ(func_name_of("aten::numpy_T.a"), "T");
  EXPECT_EQ(func_name_of("my.library::op.out"), "op");
}

TEST(LayerTypeOf, IsLowerCaseWithoutUnderscores) {
  EXPECT_EQ(layer_type_of("__iadd__"), "iadd");
  EXPECT_EQ(layer_type_of("NumToTensor"), "numtotensor");
  EXPECT_EQ(layer_type_of("___"), "");
}

TEST(OpSemantics, AnOperatorWithoutARowHasTheDefaultOne) {
  const OpSemantics& row = op_semantics("aten::relu");
  EXPECT_EQ(row.name, "");
  EXPECT_EQ(row.hidden_writes, 0U);
  EXPECT_EQ(row.hidden_writes_if, -1);
  EXPECT_FALSE(row.uninitialised);
  EXPECT_EQ(&op_semantics(""), &row);
  EXPECT_EQ(&op_semantics("zzz::last"), &row);
}

// aten::batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled); with
// instance_norm the condition is use_input_stats, also argument 5.
TEST(OpSemantics, NormsWriteTheirRunningStatisticsInTraining) {
  for (const std::string_view name : {"aten::batch_norm", "aten::instance_norm", "aten::native_batch_norm",
                                      "aten::_batch_norm_impl_index", "aten::cudnn_batch_norm"}) {
    EXPECT_EQ(op_semantics(name).hidden_writes, 0b11000U) << name;
    EXPECT_EQ(op_semantics(name).hidden_writes_if, 5) << name;
  }
  EXPECT_EQ(op_semantics("aten::_native_batch_norm_legit").hidden_writes, 0U) << "its schema announces them";
}

TEST(OpSemantics, ConditionlessWritesAreAlwaysMade) {
  EXPECT_EQ(op_semantics("aten::batch_norm_update_stats").hidden_writes, 0b110U);
  EXPECT_EQ(op_semantics("aten::batch_norm_update_stats").hidden_writes_if, -1);
}

TEST(OpSemantics, EmptyFactoriesYieldUninitialisedMemory) {
  for (const std::string_view name : {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty",
                                      "aten::new_empty_strided", "aten::empty_quantized", "aten::resize_"}) {
    EXPECT_TRUE(op_semantics(name).uninitialised) << name;
  }
  EXPECT_FALSE(op_semantics("aten::zeros").uninitialised);
  EXPECT_TRUE(op_semantics("aten::empty.memory_format").uninitialised) << "falls back to the operator's row";
}

// Top-level events of torch.profiler while one operation runs, torch 2.13.0.
TEST(OpSemantics, TopLevelCallsAreThoseOfTheOverload) {
  EXPECT_EQ(op_semantics("aten::Int.Tensor").top_level_calls, "aten::item");
  EXPECT_EQ(op_semantics("aten::Int.float").top_level_calls, "");
  EXPECT_EQ(op_semantics("aten::tensor").top_level_calls, "aten::empty,aten::to?");
  EXPECT_EQ(op_semantics("aten::tensor.int").top_level_calls, "aten::to?");
  EXPECT_EQ(op_semantics("aten::tensor.bool").top_level_calls, "aten::empty,aten::fill_,aten::to?");
  EXPECT_EQ(op_semantics("aten::Complex.Tensor_Tensor").top_level_calls, "aten::item,aten::item");
  EXPECT_EQ(op_semantics("aten::dim").top_level_calls, "-");
  EXPECT_EQ(op_semantics("prim::NumToTensor.Scalar").top_level_calls, "");
}

}  // namespace
}  // namespace tl

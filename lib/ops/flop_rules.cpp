#include "ops/flop_rules.h"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace tl {
namespace {

using enum FlopFormula;
using enum FlopSource;

// Read by scripts/generate_ops_doc.py, which writes the tables of docs/cost.md: rows are {rule, source, names, note}.
constexpr FlopGroup kGroups[] = {
    {{kZero, 0},
     kTorchLens,
     "_autocast_to_full_precision _autocast_to_reduced_precision _cast_Byte _cast_Char _cast_Double _cast_Float "
     "_cast_Half _cast_Int _cast_Long _cast_Short _copy_from _conj_physical _efficientzerotensor _fw_primal "
     "_list_to_tensor _make_dual _neg_view _nested_tensor_from_mask _nested_tensor_from_tensor_list "
     "_nested_tensor_from_mask_left_aligned _pack_padded_sequence _pad_circular _pad_enum _pad_packed_sequence "
     "_reshape_alias _reshape_copy _resize_output _to_copy _to_cpu _unsafe_view _unpack_dual alias_copy arange "
     "argwhere "
     "as_strided as_strided_copy as_strided_scatter as_tensor atleast_1d atleast_2d atleast_3d bartlett_window "
     "bernoulli "
     "blackman_window block_diag broadcast_tensors broadcast_to bucketize cartesian_prod cat cauchy channel_shuffle "
     "chunk clone col2im column_stack combinations complex concat concatenate conj conj_physical constant_pad_nd "
     "contiguous copy cpu cuda dense_dim detach detach_copy diag diag_embed diagflat diagonal_copy diagonal_scatter "
     "dsplit dstack empty empty_like empty_permuted empty_quantized empty_strided expand expand_as expand_copy "
     "exponential eye flatten flatten_dense_tensors flip fliplr flipud from_file full full_like geometric "
     "hamming_window hann_window hsplit hstack im2col imag index_fill kaiser_window lift lift_fresh lift_fresh_copy "
     "linspace log_normal logspace masked_fill meshgrid movedim moveaxis native_channel_shuffle "
     "narrow narrow_copy nested_to_padded_tensor new_empty new_empty_strided new_full new_ones new_zeros "
     "nonzero nonzero_numpy nonzero_static normal normal_functional one_hot ones ones_like pad pad_sequence "
     "permute permute_copy pin_memory pixel_shuffle pixel_unshuffle poisson positive "
     "rand rand_like randint randint_like randn randn_like random randperm ravel real reflection_pad1d "
     "reflection_pad2d "
     "reflection_pad3d repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d reshape "
     "reshape_as resize resize_as resolve_conj resolve_neg roll rot90 row_stack scalar_tensor select_copy "
     "select_scatter set slice_copy slice_scatter sparse_coo_tensor sparse_csr_tensor split split_copy "
     "split_with_sizes split_with_sizes_copy squeeze squeeze_copy stack swapaxes swapdims t_copy tensor tensor_split "
     "tile to to_dense to_sparse to_sparse_csr transpose transpose_copy tril tril_indices triu triu_indices type_as "
     "unbind unbind_copy unfold unfold_copy uniform unsqueeze unsqueeze_copy unsafe_chunk unsafe_split "
     "unsafe_split_with_sizes values_copy view view_as view_as_complex view_as_complex_copy "
     "view_as_real view_as_real_copy view_copy vsplit vstack where zeros_like zeros "
     "multinomial functorch::_add_batch_dim functorch::_remove_batch_dim prim::VarConcat prim::VarStack prim::data "
     "quantized::cat quantized_decomposed::choose_qparams "
     "",
     "views, copies, casts, joins, selections by mask, factories, random numbers"},
    {{kGather, 0},
     kTorchLens,
     "_unsafe_index _unsafe_masked_index embedding gather index index_select masked_select take take_along_dim",
     "of the first argument only what is yielded is read"},
    {{kOverwrite, 0},
     kTorchLens,
     "copy_ fill fill_ index_copy index_put _index_put_impl_ _unsafe_index_put masked_scatter put scatter zero zero_",
     "the first argument is written, not read"},
    {{kPerOutput, 1},
     kTorchLens,
     "__and__ __iand__ __ilshift__ __ior__ __irshift__ __ixor__ __lshift__ __or__ __rshift__ __xor__ abs absolute add "
     "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max "
     "clamp_min clip copysign div divide eq fix floor floor_divide fmax fmin fmod frac ge greater greater_equal gt "
     "heaviside isclose isfinite isinf isnan isneginf isposinf isreal le less less_equal logical_and logical_not "
     "logical_or logical_xor lt max.other maximum min.other minimum mul multiply nan_to_num ne neg negative not_equal "
     "reciprocal relu relu6 remainder round rsub sgn sign signbit square sub subtract threshold true_divide trunc "
     "hardtanh prim::abs quantized::add quantized::add_scalar quantized::mul quantized::mul_scalar quantized::relu6 "
     "quantized::threshold",
     "arithmetic, rounding, comparisons, bits, limits"},
    {{kPerOutput, 2},
     kTorchLens,
     "dropout feature_dropout alpha_dropout feature_alpha_dropout native_dropout _fused_dropout pow float_power sqrt"},
    {{kPerOutput, 3}, kTorchLens, "addcdiv addcmul lerp"},
    {{kPerOutput, 4},
     kTorchLens,
     "sigmoid special_expit __interpolate __upsample __upsample_bilinear __upsample_nearest _upsample_bicubic2d_aa "
     "_upsample_bilinear2d_aa _upsample_lanczos2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d "
     "_upsample_nearest_exact3d upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d "
     "upsample_nearest2d upsample_nearest3d upsample_trilinear3d quantized::sigmoid",
     "sigmoid, and interpolation in any mode"},
    {{kPerOutput, 5},
     kTorchLens,
     "silu softmax special_softmax _softmax _safe_softmax _batch_norm_impl_index _batch_norm_no_update "
     "_batch_norm_with_update _batch_norm_with_update_functional _fused_rms_norm _native_batch_norm_legit "
     "_native_batch_norm_legit_functional _native_batch_norm_legit_no_training batch_norm cudnn_batch_norm group_norm "
     "instance_norm layer_norm miopen_batch_norm native_batch_norm native_group_norm native_layer_norm "
     "quantized_batch_norm rms_norm quantized::batch_norm quantized::batch_norm1d quantized::batch_norm2d "
     "quantized::batch_norm3d quantized::group_norm quantized::instance_norm quantized::layer_norm",
     "silu, softmax, the normalisations"},
    {{kPerOutput, 6}, kTorchLens, "tanh log_softmax special_log_softmax _log_softmax"},
    {{kPerOutput, 8},
     kTorchLens,
     "acos acosh angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh cos cosh erf "
     "erfc erfinv exp exp2 expm1 log log10 log1p log2 mish sin sinh special_erf special_erfc special_exp2 "
     "special_expm1 "
     "special_log1p tan",
     "transcendental functions"},
    {{kPerOutput, 9}, kTorchLens, "elu celu quantized::elu quantized::celu"},
    {{kPerOutput, 10}, kTorchLens, "selu sinc special_sinc"},
    {{kPerOutput, 12}, kTorchLens, "digamma lgamma special_digamma special_gammaln"},
    {{kPerOutput, 14}, kTorchLens, "gelu"},
    {{kPerInput, 1},
     kTorchLens,
     "_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
     "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d all amax amin aminmax any argmax argmin bincount "
     "count_nonzero cummax cummin cumprod cumsum equal max mean median min mkldnn_adaptive_avg_pool2d "
     "nanmean nanmedian nansum prod sum sum_to_size trace",
     "reductions, running sums, adaptive pools"},
    {{kPerInput, 2}, kTorchLens, "frobenius_norm linalg_norm linalg_vector_norm norm norm_except_dim"},
    {{kPerInput, 3}, kTorchLens, "std std_mean var var_mean"},
    {{kPerArgument, 3},
     kComposed,
     "index_add scatter_add scatter_reduce",
     "one operation for each element of the source"},
    {{kLinear, 0},
     kTorchLens,
     "linear mkldnn_linear quantized::linear quantized::linear_dynamic quantized::linear_dynamic_fp16 "
     "",
     "the bias of a packed weight is not seen and not counted"},
    {{kLinear, 1},
     kComposed,
     "quantized::linear_relu quantized::linear_relu_dynamic quantized::linear_relu_dynamic_fp16"},
    {{kConvolution, 0},
     kTorchLens,
     "_conv_depthwise2d _convolution _convolution_mode _mps_convolution _nnpack_spatial_convolution "
     "_slow_conv2d_forward conv1d conv2d conv3d conv_depthwise3d convolution convolution_overrideable "
     "cudnn_convolution "
     "miopen_convolution miopen_depthwise_convolution mkldnn_convolution slow_conv3d slow_conv3d_forward "
     "slow_conv_dilated2d slow_conv_dilated3d thnn_conv2d prim::mkldnn_convolution",
     "a packed weight is not seen: quantised convolutions have no count"},
    {{kTransposedConvolution, 0},
     kTorchLens,
     "_mps_convolution_transpose conv_transpose1d conv_transpose2d conv_transpose3d cudnn_convolution_transpose "
     "miopen_convolution_transpose slow_conv_transpose2d slow_conv_transpose3d"},
    {{kMatmul, 0},
     kTorchLens,
     "bmm dot inner linalg_matmul linalg_vecdot matmul mm mv vdot _int_mm _scaled_mm "
     "quantized::matmul"},
    {{kAddMatmul, 0}, kTorchLens, "addbmm addmm addmv baddbmm"},
    {{kAttention, 0},
     kTorchLens,
     "_scaled_dot_product_attention_math _scaled_dot_product_attention_math_for_mps "
     "_scaled_dot_product_cudnn_attention "
     "_scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention "
     "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_fused_attention_overrideable "
     "scaled_dot_product_attention"},
    {{kPool, 1}, kTorchLens, "avg_pool1d max_pool1d max_pool1d_with_indices quantized_max_pool1d"},
    {{kPool, 2}, kTorchLens, "avg_pool2d max_pool2d max_pool2d_with_indices mkldnn_max_pool2d quantized_max_pool2d"},
    {{kPool, 3}, kTorchLens, "avg_pool3d max_pool3d max_pool3d_with_indices mkldnn_max_pool3d quantized_max_pool3d"},
    {{kSort, 0}, kTorchLens, "argsort kthvalue msort sort topk"},
    {{kEinsum, 0}, kTorchLens, "einsum"},
    {{kPerOutput, 2},
     kComposed,
     "leaky_relu _prelu_kernel prelu rrelu rrelu_with_noise softshrink hardshrink addr deg2rad rad2deg dequantize "
     "quantized::add_relu quantized::leaky_relu quantized::add_scalar_relu quantized::mul_relu "
     "quantized_decomposed::dequantize_per_channel quantized_decomposed::dequantize_per_tensor "
     "quantized_decomposed::dequantize_per_token",
     "a comparison and a product; dequantising is a difference and a product"},
    {{kPerOutput, 3}, kComposed, "hardsigmoid rsqrt hypot", "hardsigmoid: sum, limits, product"},
    {{kPerOutput, 4},
     kComposed,
     "hardswish quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic quantized::hardswish "
     "quantized_decomposed::quantize_per_channel "
     "quantized_decomposed::quantize_per_tensor quantized_decomposed::quantize_per_token",
     "quantising is a quotient, a sum, a rounding and limits"},
    {{kPerOutput, 5}, kComposed, "glu", "a sigmoid and a product"},
    {{kPerOutput, 6},
     kComposed,
     "fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask fake_quantize_per_tensor_affine "
     "fake_quantize_per_tensor_affine_cachemask _fake_quantize_per_tensor_affine_cachemask_tensor_qparams "
     "quantized::batch_norm1d_relu quantized::batch_norm2d_relu quantized::batch_norm3d_relu"},
    {{kPerOutput, 13}, kComposed, "logit log_sigmoid log_sigmoid_forward special_logit"},
    {{kPerOutput, 17}, kComposed, "softplus", "exp, sum and log"},
    {{kPerInput, 9}, kComposed, "logsumexp special_logsumexp", "exp and sum of each element"},
    {{kPerOutput, 1}, kComposed, "ger outer kron", "one product an element"},
    {{kLstm, 0}, kComposed, "lstm lstm_cell", "TorchLens has no count"},
    {{kGru, 0}, kComposed, "gru gru_cell", "TorchLens has no count"},
    {{kRnnTanh, 0}, kComposed, "rnn_tanh rnn_tanh_cell", "TorchLens has no count"},
    {{kRnnRelu, 0}, kComposed, "rnn_relu rnn_relu_cell", "TorchLens has no count"},
};

using RuleMap = std::unordered_map<std::string_view, FlopRule>;

struct RulesByName {
  RuleMap aten;   ///< names without `aten::`
  RuleMap other;  ///< qualified
};

RulesByName rules_by_name() {
  RulesByName rules;
  for (const auto& group : kGroups) {
    for (std::string_view rest = group.names; !rest.empty();) {
      const auto end = std::min(rest.find(' '), rest.size());
      const auto name = rest.substr(0, end);
      auto& map = name.find("::") == std::string_view::npos ? rules.aten : rules.other;
      map.emplace(name, group.rule);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return rules;
}

FlopRule find_rule(const RuleMap& rules, std::string_view name, std::string_view overload) {
  if (!overload.empty()) {
    const auto full = std::string(name) + "." + std::string(overload);
    if (const auto found = rules.find(full); found != rules.end()) return found->second;
  }
  if (const auto found = rules.find(name); found != rules.end()) return found->second;
  return {};
}

}  // namespace

FlopRule flop_rule(std::string_view op_name, std::string_view overload) {
  static const RulesByName rules = rules_by_name();
  constexpr std::string_view kAten = "aten::";
  const bool is_aten = op_name.starts_with(kAten);
  const auto& map = is_aten ? rules.aten : rules.other;
  const auto name = is_aten ? op_name.substr(kAten.size()) : op_name;
  const auto rule = find_rule(map, name, overload);
  if (rule.formula != FlopFormula::kUnknown || !name.ends_with('_')) return rule;
  return find_rule(map, name.substr(0, name.size() - 1), overload);
}

std::span<const FlopGroup> flop_groups() { return kGroups; }

}  // namespace tl

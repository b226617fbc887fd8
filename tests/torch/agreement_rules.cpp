#include "torch/agreement_rules.h"

#include <algorithm>
#include <array>

namespace tl::test {

const std::vector<AgreementRule>& agreement_rules() {
  static constexpr auto kWholeSlice = "the exporter leaves out a subscript that takes everything";
  static constexpr auto kBakedCondition = "the condition of an if, which tracing bakes";
  static constexpr auto kBakedNumbers = "a literal tensor: made anew in a script, a constant that is copied elsewhere";
  static constexpr auto kAssignment =
      "a number assigned through a subscript: copied from a tensor in a script, filled elsewhere";
  static constexpr auto kBroadcast =
      "a tensor assigned through a subscript: tracing and exporting write out how it is broadcast";
  static constexpr auto kSplit = "torch.split by a list of sizes is another operator in a script";
  static constexpr auto kNoCopy =
      "the exporter leaves out a contiguous() that changes nothing, or writes an alias for it";
  static constexpr auto kUnused = "tracing leaves out what no output needs";
  static constexpr auto kCasts = "tracing under autocast writes the casts, which are a mode elsewhere";
  static constexpr auto kResampling =
      "the exported program resamples to the size that is there; the others decided not to";
  static constexpr auto kBatched = "tracing sees what vmap made of the operator, exporting keeps vmap";
  static const std::vector<AgreementRule> rules = {
      {"aten::slice", "training", "", kWholeSlice},
      {"aten::gt", "script", "trace", kBakedCondition},
      {"aten::sum", "script", "trace", kBakedCondition},
      {"aten::mean", "script", "trace", kBakedCondition},
      {"aten::tensor", "script", "", kBakedNumbers},
      {"aten::detach", "script", "", kBakedNumbers},
      {"aten::lift_fresh_copy", "training", "", kBakedNumbers},
      {"aten::copy", "script", "", kAssignment},
      {"aten::fill", "script", "", kAssignment},
      {"aten::expand", "script", "", kBroadcast},
      {"aten::view", "script", "", kBroadcast},
      {"aten::split", "script", "", kSplit},
      {"aten::split_with_sizes", "script", "", kSplit},
      {"aten::contiguous", "training", "", kNoCopy},
      {"aten::alias", "training", "", kNoCopy},
      {"aten::tanh", "trace", "training", kUnused},
      {"aten::sigmoid", "training", "", kUnused},
      {"aten::to", "trace", "", kCasts},
      {"aten::to", "training", "", kResampling},
      {"aten::_upsample_bicubic2d_aa", "training", "", kResampling},
      {"aten::cat", "training", "", kResampling},
      {"aten::permute", "training", "", kResampling},
      {"aten::reshape", "training", "", kResampling},
      {"aten::matmul", "trace", "training", kBatched},
      {"aten::t", "trace", "training", kBatched},
      {"aten::dot", "trace", "training", kBatched},
      {"functorch::_add_batch_dim", "training", "", kBatched},
      {"functorch::_remove_batch_dim", "training", "", kBatched},
  };
  return rules;
}

bool explains(std::string_view left, std::string_view right, std::string_view operation) {
  const auto has = [&](std::string_view format) { return format.empty() || format == left || format == right; };
  return std::ranges::any_of(agreement_rules(), [&](const AgreementRule& rule) {
    return rule.operation == operation && has(rule.first) && has(rule.second);
  });
}

bool is_fused_path(std::string_view operation) {
  return operation == "aten::_transformer_encoder_layer_fwd" || operation == "aten::_native_multi_head_attention";
}

std::string same_kernel_as(const std::string& operation) {
  static constexpr std::array<std::string_view, 6> kConvolutions = {"aten::_convolution",     "aten::conv1d",
                                                                    "aten::conv2d",           "aten::conv3d",
                                                                    "aten::conv_transpose1d", "aten::conv_transpose2d"};
  return std::ranges::find(kConvolutions, operation) == kConvolutions.end() ? operation : "aten::convolution";
}

}  // namespace tl::test

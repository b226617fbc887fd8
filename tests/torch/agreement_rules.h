#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tl::test {

/// Why recordings of one model in two formats differ at an operator. Rules name operators and formats, never models.
struct AgreementRule {
  std::string_view operation;  ///< aten::dropout, without the underscore of the in-place form
  std::string_view first;      ///< a format that a pair must have for the rule to hold; empty: any
  std::string_view second;     ///< another that it must have; empty: any
  std::string_view why;
};

/// Every declared disagreement of operators.
const std::vector<AgreementRule>& agreement_rules();

/// True if a rule explains that this operator is in one of two recordings only, or has other bits in the other.
bool explains(std::string_view left, std::string_view right, std::string_view operation);

/// True for an operator that does the work of many: what runs around it in the other format is another list of
/// operators, so only outputs of module calls are compared.
bool is_fused_path(std::string_view operation);

/// The name under which operators that call the same kernel are compared: one for all convolutions, which a traced file
/// holds as aten::_convolution. Other names as they are.
std::string same_kernel_as(const std::string& operation);

}  // namespace tl::test

#include "torch/declared_differences.h"

#include <algorithm>

namespace tl::test {

const std::vector<Difference>& declared_differences() {
  static constexpr auto kSameOperator = "Python's operator calls this function";
  static constexpr auto kForwardsOnly =
      "an exported program holds the lines of forwards, not those of torch's functions";
  static const std::vector<Difference> kRows = {
      {"__add__", Effect::kRenamed, "", "add", kSameOperator},
      {"__mul__", Effect::kRenamed, "", "mul", kSameOperator},
      {"__neg__", Effect::kRenamed, "", "neg", kSameOperator},
      {"__gt__", Effect::kRenamed, "", "gt", kSameOperator},
      {"__lt__", Effect::kRenamed, "", "lt", kSameOperator},
      {"__truediv__", Effect::kRenamed, "", "div", kSameOperator},
      {"__iadd__", Effect::kRenamed, "", "add_", "y += 1 and y.add_(1) are the same call in a file"},
      {"float", Effect::kRenamed, "", "to", "a file holds the cast with its element type"},
      {"__getitem__", Effect::kSplit, "slice select index", "slice select index",
       "a file holds one view for each axis of the subscript"},
      {"__setitem__", Effect::kWrittenThrough, "slice select", "copy_ fill_",
       "a file holds the views of the subscript and the write through them"},
      {"batch_norm", Effect::kLeftOut, "", "",
       "Python notes a version of the statistics even where the call did not write them"},
      {"*", Effect::kLeftOut, "", "", "the exporter dropped what no output needs; the file does not hold the operator"},
      {"*", Effect::kHandedOn, "", "",
       "a traced file hands the result of an in-place operation on where Python reads the buffer again"},
      {"*", Effect::kOtherState, "", "",
       "tracing runs the model, so a traced file holds a buffer that the model writes as that run left it"},
      {"split", Effect::kPlacedOutside, "", "", "torch.split is Python code that a scripted file does not hold"},
      {"batch_norm", Effect::kPlacedInForward, "", "", kForwardsOnly},
      {"conv2d", Effect::kPlacedInForward, "", "", kForwardsOnly},
      {"dropout", Effect::kPlacedInForward, "", "", kForwardsOnly},
      {"embedding", Effect::kPlacedInForward, "", "", kForwardsOnly},
      {"layer_norm", Effect::kPlacedInForward, "", "", kForwardsOnly},
      {"relu", Effect::kPlacedInForward, "", "", kForwardsOnly},
      {"relu_", Effect::kPlacedInForward, "", "", kForwardsOnly},
      {"split", Effect::kPlacedInForward, "", "", kForwardsOnly},
  };
  return kRows;
}

const Difference* naming_of(std::string_view operation) {
  const auto& rows = declared_differences();
  const auto row = std::ranges::find_if(rows, [&](const Difference& difference) {
    return difference.operation == operation && difference.effect <= Effect::kWrittenThrough;
  });
  return row == rows.end() ? nullptr : &*row;
}

bool is_declared(Effect effect, std::string_view operation) {
  return std::ranges::any_of(declared_differences(), [&](const Difference& difference) {
    return difference.effect == effect && difference.operation == operation;
  });
}

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const auto space = list.find(' ');
    if (list.substr(0, space) == word) return true;
    list = space == std::string_view::npos ? std::string_view{} : list.substr(space + 1);
  }
  return false;
}

}  // namespace tl::test

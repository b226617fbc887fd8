#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tl {

/// File name of the list that the build writes beside the engine plugin.
inline constexpr const char* kOperatorListFileName = "torchlens_torch.operators.txt";

/// What an engine can run without further libraries, as its build wrote it down, so that a file can be looked at
/// without opening the engine. Names are sorted.
struct KnownOperators {
  std::string engine;                  ///< LibTorch 2.13.0
  std::vector<std::string> operators;  ///< qualified, without overload: aten::relu
  std::vector<std::string> classes;    ///< registered classes: __torch__.torch.classes.quantized.LinearPackedParamsBase

  bool has_operator(std::string_view name) const;
  bool has_class(std::string_view name) const;
};

/// The list beside the engine plugin that open_engine would open. nullopt: there is no plugin or no list, or it is none
/// of this version.
std::optional<KnownOperators> read_known_operators(const std::filesystem::path& executable_dir);

/// The text of a list, and the way back: a header line, `engine NAME`, then `op NAME` and `class NAME` lines.
std::string format_known_operators(const KnownOperators& known);
std::optional<KnownOperators> parse_known_operators(std::string_view text);

}  // namespace tl

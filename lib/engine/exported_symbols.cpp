#include "engine/exported_symbols.h"

#include <algorithm>
#include <vector>

namespace tl {
namespace {

constexpr std::size_t kMostSymbols = 8;

bool is_word(char c) { return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// torch.fx names sizes of inputs s77, values that data decides u0 and zuf0.
bool is_symbol(std::string_view word) {
  const auto digits = word.find_first_of("0123456789");
  const auto name = word.substr(0, digits);
  return digits != std::string_view::npos && word.find_first_not_of("0123456789", digits) == std::string_view::npos &&
         (name == "s" || name == "u" || name == "zf" || name == "zuf");
}

std::vector<std::string> symbols_in(std::string_view text) {
  std::vector<std::string> symbols;
  for (std::size_t at = 0; at < text.size() && symbols.size() < kMostSymbols;) {
    auto end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string word(text.substr(at, end - at));
    if (is_symbol(word) && std::ranges::find(symbols, word) == symbols.end()) symbols.push_back(word);
    at = end + 1;
  }
  return symbols;
}

class Meanings {
 public:
  Meanings(const ExportedProgram& program, const ExportedInterface& interface)
      : graph_(program.graph), interface_(interface) {}

  std::string of(const std::string& symbol) const {
    for (const auto& leaf : interface_.leaves) {
      const auto* ref = graph_.inputs[leaf.input].ref();
      const auto* value = ref ? &graph_.values[ref->value] : nullptr;
      if (!value) continue;
      if (value->expression == symbol) return leaf.path;
      if (value->meta < 0) continue;
      const auto& sizes = graph_.metas[static_cast<std::size_t>(value->meta)].sizes;
      const auto size = std::ranges::find(sizes, symbol, &ExportedSymInt::expression);
      if (size != sizes.end()) return leaf.path + ".shape[" + std::to_string(size - sizes.begin()) + "]";
    }
    const auto value = std::ranges::find_if(graph_.values, [&](const ExportedGraphValue& candidate) {
      return candidate.expression == symbol && candidate.producer >= 0;
    });
    if (value == graph_.values.end()) return {};
    return made_by(graph_.nodes[static_cast<std::size_t>(value->producer)]);
  }

 private:
  /// `item of n` for torch.ops.aten.item.default(n).
  std::string made_by(const ExportedNode& node) const {
    std::string_view name(node.target);
    if (name.starts_with("torch.ops.")) name = name.substr(0, name.rfind('.'));
    std::string text(name.substr(name.rfind('.') + 1));
    for (const auto& input : node.inputs) {
      if (const auto* ref = input.argument.ref()) return text + " of " + name_of(ref->value);
    }
    return text;
  }

  /// The path of an input, the graph's name for all else.
  std::string name_of(std::uint32_t value) const {
    for (const auto& leaf : interface_.leaves) {
      const auto* ref = graph_.inputs[leaf.input].ref();
      if (ref && ref->value == value) return leaf.path;
    }
    return graph_.values[value].name;
  }

  const ExportedGraph& graph_;
  const ExportedInterface& interface_;
};

}  // namespace

std::string explain_symbols(const ExportedProgram& program, const ExportedInterface& interface, std::string_view text) {
  const Meanings meanings(program, interface);
  std::string explained;
  for (const auto& symbol : symbols_in(text)) {
    const auto meaning = meanings.of(symbol);
    if (!meaning.empty()) explained += (explained.empty() ? "" : ", ") + symbol + " is " + meaning;
  }
  return explained;
}

}  // namespace tl

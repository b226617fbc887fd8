#include "program/lifetimes.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

namespace tl::lt {

namespace {

/// Slots that instructions of a block and of the blocks in it read.
void collect_uses(const Block& block, std::unordered_set<std::uint32_t>& used) {
  for (const auto& instruction : block.instructions) {
    used.insert(instruction.inputs.begin(), instruction.inputs.end());
    for (const auto& nested : instruction.blocks) collect_uses(nested, used);
  }
  used.insert(block.outputs.begin(), block.outputs.end());
}

}  // namespace

void mark_last_uses(Block& block) {
  struct Use {
    std::size_t instruction;
    bool nested;
  };
  std::unordered_map<std::uint32_t, Use> last;
  std::unordered_set<std::uint32_t> local(block.params.begin(), block.params.end());
  for (std::size_t i = 0; i < block.instructions.size(); ++i) {
    auto& instruction = block.instructions[i];
    local.insert(instruction.outputs.begin(), instruction.outputs.end());
    // What a mark names is only looked at: it can be let go there, not moved.
    const bool mark = instruction.kind == InstructionKind::kLeaveModule;
    for (const auto slot : instruction.inputs) last.insert_or_assign(slot, Use{i, mark});
    std::unordered_set<std::uint32_t> inner;
    for (auto& nested : instruction.blocks) {
      collect_uses(nested, inner);
      mark_last_uses(nested);
    }
    for (const auto slot : inner) last.insert_or_assign(slot, Use{i, true});
  }
  const std::unordered_set<std::uint32_t> returned(block.outputs.begin(), block.outputs.end());
  for (const auto& [slot, use] : last) {
    if (!local.contains(slot) || returned.contains(slot)) continue;
    auto& instruction = block.instructions[use.instruction];
    if (use.nested) {
      instruction.release.push_back(slot);
      continue;
    }
    for (std::size_t i = instruction.inputs.size(); i-- > 0;) {
      if (instruction.inputs[i] != slot) continue;
      instruction.input_dies[i] = true;
      break;
    }
  }
  for (auto& instruction : block.instructions) {
    std::ranges::sort(instruction.release);
    for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
      const auto slot = instruction.outputs[i];
      instruction.output_unused[i] = !last.contains(slot) && !returned.contains(slot);
    }
  }
  block.output_dies.assign(block.outputs.size(), false);
  for (std::size_t i = 0; i < block.outputs.size(); ++i) {
    const auto rest = block.outputs.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    block.output_dies[i] = local.contains(block.outputs[i]) &&
                           std::find(rest, block.outputs.end(), block.outputs[i]) == block.outputs.end();
  }
}

}  // namespace tl::lt

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

namespace tl {

/// A 32-bit row number of one table; ids of different tables do not convert into each other.
/// The default value is `none`, which no row has.
template <typename Tag>
struct Id {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t value = kNone;

  constexpr bool valid() const { return value != kNone; }
  constexpr std::size_t index() const { return value; }
  friend constexpr auto operator<=>(Id, Id) = default;
};

using OpId = Id<struct OpTag>;                    ///< row of the ops table
using LayerId = Id<struct LayerTag>;              ///< row of layers
using InstructionId = Id<struct InstructionTag>;  ///< row of instructions
using CallSiteId = Id<struct CallSiteTag>;        ///< row of call_sites (file, line, columns)
using SiteContextId =
    Id<struct SiteContextTag>;          ///< row of site_contexts (module instance + chain of calls in its forward)
using ModuleId = Id<struct ModuleTag>;  ///< row of modules
using ModuleCallId = Id<struct ModuleCallTag>;  ///< row of module_calls
using ParamId = Id<struct ParamTag>;            ///< row of params
using BufferId = Id<struct BufferTag>;          ///< row of buffers
using PayloadId = Id<struct PayloadTag>;        ///< row of payloads
using StringId = Id<struct StringTag>;          ///< code into the string pool

}  // namespace tl

template <typename Tag>
struct std::hash<tl::Id<Tag>> {
  std::size_t operator()(tl::Id<Tag> id) const noexcept { return std::hash<std::uint32_t>{}(id.value); }
};

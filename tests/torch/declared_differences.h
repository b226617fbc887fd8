#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tl::test {

/// How a recording of a file may differ from Python's recording of the model it was made from.
enum class Effect : std::uint8_t {
  kRenamed,          ///< one Op under another name; this and the next two are about names
  kSplit,            ///< a chain of Ops, each the first parent of the next; the last has the value
  kWrittenThrough,   ///< a chain of views and a write through the last of them; the write stands for the changed tensor
  kLeftOut,          ///< no Op
  kHandedOn,         ///< the reader hangs on another Op that has the same value
  kPlacedOutside,    ///< the place is that of an enclosing call
  kPlacedInForward,  ///< exported programs: the place is that of the call in the forward around
  kOtherState,       ///< the value is that of a later moment
};

/// One declared difference. Rules are keyed by operator, never by model; docs/differences.md explains each.
struct Difference {
  std::string_view operation;  ///< Python's name of the function; `*`: any, where the effect says it
  Effect effect;
  std::string_view steps;  ///< names that may come before the last Op of a chain, by space
  std::string_view last;   ///< names of the Op that has the value, by space
  std::string_view why;
};

/// Every declared difference.
const std::vector<Difference>& declared_differences();

/// The row that says under what names a Python function is recorded; null: under its own.
const Difference* naming_of(std::string_view operation);

/// True if a row declares this effect for the operation.
bool is_declared(Effect effect, std::string_view operation);

/// True if `word` is one of the words of `list`.
bool has_word(std::string_view list, std::string_view word);

}  // namespace tl::test

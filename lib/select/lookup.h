#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "select/fields.h"
#include "trace/trace.h"

namespace tl {

/// A record of a Trace that a key names.
struct Found {
  enum class Kind : std::uint8_t {
    kLayer,
    kOp,
    kModule,
    kModuleCall,
    kParam,
    kBuffer,
    kConditional
  } kind = Kind::kLayer;
  std::uint32_t row = 0;  ///< of the table of that kind

  friend bool operator==(const Found&, const Found&) = default;
};

/// The table that a kind of record is a row of.
TableId table_of(Found::Kind kind);

/// True for the names of the typed collections: layers, ops, modules, module_calls, params, buffers, conditionals.
bool is_collection(std::string_view name);

/// The layer types that a text can be a label of: relu of relu_1_2:3; empty if it has not the form of a label.
std::vector<std::string_view> types_of_label(std::string_view text);

/// Looks `key` up in the order of the design document: Layer label (relu_1_2, input_1); the other keys of Ops: label
/// with pass (relu_1_2:3, relu_1_2:last; `:all` gives the Layer), raw label (relu_1_4_raw), short label (relu_1), role
/// (input.x, output.0); module address (any alias), module call (block:2, block:last; `:all` gives the module), address
/// of a parameter, of a buffer; label of a conditional (cond_gt_1_2); ordinal of an Op, from 0, negative ones from the
/// end; typed collections (layers[0], ops[-1], modules[block], params["fc.weight"]); all of these without regard to
/// case; a substring of exactly one Op's label. Errors: kLookupNotFound (with close keys), kPassOutOfRange,
/// kIndexOutOfRange, kModuleCallAmbiguous, kAmbiguousOpLookup (several Ops fit, or the key is a collection or a filter
/// of one), kUnknownField (a filter that a collection has not). Linear in the rows of the trace, without building a
/// label per row but for the last resort.
Result<Found> look_up(const Trace& trace, std::string_view key);

/// The same where several records will do: slices (ops[2:5]) and filters (layers.recurrent, params.trainable) as well.
Result<std::vector<Found>> look_up_rows(const Trace& trace, std::string_view key);

/// A label that names a place: of a Layer or Op, raw or short, `:all` for every pass. The bare label of a Layer with
/// several passes is refused with kMultipassBareLabel, which lists them. Nothing is guessed from case or parts.
Result<std::vector<Found>> look_up_site(const Trace& trace, std::string_view label);

/// Where one Op is needed: as look_up; of a module or a call of it what it returned. Errors beside those of look_up:
/// kAmbiguousOpLookup (a Layer with several passes), kModuleCallAmbiguous (a module called several times), both
/// listing them; kLookupNotFound for records that no one Op stands for.
Result<OpId> look_up_op(const Trace& trace, std::string_view key);

}  // namespace tl

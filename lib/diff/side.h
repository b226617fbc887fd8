#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diff/report.h"
#include "trace/dump.h"
#include "trace/trace.h"

namespace tl {

/// Gives a module address of the reference the name that the subject has for it.
using Renamer = std::function<std::string(std::string_view)>;

/// One recording as alignment reads it: rows in order of execution, and hashes of what identifies each. Rows of a Trace
/// are those of its table ops; rows of a Dump are its inputs, entries and outputs, one after the other.
struct Side {
  const Trace* trace = nullptr;
  const Dump* dump = nullptr;

  std::vector<OpKind> kind;
  std::vector<std::uint64_t> type;     ///< functional name without the marks of dialects, and slot; class of an entry
  std::vector<std::uint64_t> shape;    ///< sizes
  std::vector<std::uint64_t> weights;  ///< contents of the parameters it reads; 0 where none, or not known
  std::vector<std::uint64_t> place;    ///< innermost module call (address after renaming and number); 0 in none
  std::vector<std::uint64_t> call_place;  ///< the same by row of module_calls; empty for dumps
  /// An output or a written buffer hangs on the row. What the others decided is a branch at most. True for all rows of
  /// dumps and of runs that did not finish.
  std::vector<bool> matters;

  std::size_t size() const { return kind.size(); }
};

/// Both refer to the recording, which must outlive the Side.
Side make_side(const Trace& trace, const Renamer& rename = {});
Side make_side(const Dump& dump, const Renamer& rename = {});

/// place for every row again, after other renamings.
void place_rows(Side& side, const Renamer& rename);

/// The functional name as compared between dialects: add for iadd, add_ and __add__; the layer type otherwise.
std::string_view canonical_type(std::string_view layer_type);

/// Digests of a Trace's parameters are there.
bool has_digests(const Trace& trace);

/// Where a row is, for the report.
SiteRef site_ref(const Side& side, std::size_t row);

/// Rows whose value is passed on as it is or not at all: views, dropout in evaluation, contiguous, detach … An operator
/// of this kind that only one side has cannot change a value.
bool is_neutral(const Trace& trace, std::size_t op);
/// The same by functional name alone.
bool is_neutral_type(std::string_view layer_type);

/// A view that gives its elements other places, by functional name: permute, transpose, view …
bool moves_elements(std::string_view layer_type);

/// A quantise, dequantise or fake-quantise operation.
bool is_quantiser(const Trace& trace, std::size_t op);

/// The value of a row and on what it rests. Full: all elements; sampled: those at sample_positions.
struct SideValue {
  Evidence evidence = Evidence::kShape;
  TensorRefPtr tensor;    ///< null for statistics and shape
  KnownStats statistics;  ///< of kStatistics; of kSampled where the recording has them
};
SideValue value_of(const Side& side, std::size_t row);
/// The payload row behind the value, -1 where there is none: rows with the same one have the same value.
std::int64_t payload_of(const Side& side, std::size_t row);

DType dtype_of(const Side& side, std::size_t row);
std::vector<std::int64_t> sizes_of(const Side& side, std::size_t row);

/// The module address of the innermost call around a row, as recorded; `self` at the root.
std::string_view module_of(const Side& side, std::size_t row);

/// The module whose output a row of a Dump is; null for other rows and where the recording says nothing of it.
const DumpModule* dump_module(const Side& side, std::size_t row);

std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0);
std::uint64_t hash_mix(std::uint64_t a, std::uint64_t b);

}  // namespace tl

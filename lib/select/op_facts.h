#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "select/fields.h"
#include "trace/capture.h"
#include "trace/trace.h"

// Fields of an Op that are known as soon as it ran, written once for rows of a finished Trace and for events of a run.

namespace tl {

/// An Op of a finished trace.
struct TraceRow {
  const Trace& tables;
  std::size_t op;

  OpKind kind() const { return static_cast<OpKind>(tables.ops.kind[op]); }
  std::int32_t instruction() const { return tables.ops.instruction[op]; }
  std::int32_t module_call() const { return tables.ops.module_call[op]; }
  std::int32_t shape() const { return tables.ops.shape[op]; }
  DType dtype() const { return static_cast<DType>(tables.ops.dtype[op]); }
  DeviceKind device() const { return static_cast<DeviceKind>(tables.ops.device[op]); }
  std::int32_t address() const { return tables.ops.address[op]; }
  std::uint32_t flags() const { return tables.ops.flags[op]; }
  std::int64_t slot() const { return tables.ops.slot[op]; }
  std::int64_t num_slots() const { return tables.ops.num_slots[op]; }
};

/// An event of a run.
struct EventRow {
  const Capture& tables;
  const CaptureEvent& event;

  static std::int32_t row(std::uint32_t value) { return static_cast<std::int32_t>(value); }  // none is -1
  OpKind kind() const { return event.kind; }
  std::int32_t instruction() const { return row(event.instruction); }
  std::int32_t module_call() const { return row(event.module_call); }
  std::int32_t shape() const { return row(event.shape); }
  DType dtype() const { return event.dtype; }
  DeviceKind device() const { return event.device; }
  std::int32_t address() const { return row(event.address); }
  std::uint32_t flags() const { return event.flags; }
  std::int64_t slot() const { return event.slot; }
  std::int64_t num_slots() const { return event.num_slots; }
};

/// The product of sizes, saturating.
inline std::int64_t element_count(std::span<const std::int64_t> sizes) {
  std::int64_t result = 1;
  for (const auto size : sizes) {
    if (__builtin_mul_overflow(result, size, &result)) return INT64_MAX;
  }
  return result;
}

namespace facts {

template <typename Row>
void dtype(const Row& row, FieldValue& value) {
  if (row.dtype() == DType::kNone) return value.set_none();
  value.set_integer(static_cast<std::int64_t>(row.dtype()));
}

template <typename Row>
void shape(const Row& row, FieldValue& value) {
  const auto sizes = row.tables.shapes[row.shape()];
  value.kind = FieldValue::Kind::kIntegers;
  value.integers.assign(sizes.begin(), sizes.end());
}

template <typename Row>
void ndim(const Row& row, FieldValue& value) {
  value.set_integer(static_cast<std::int64_t>(row.tables.shapes[row.shape()].size()));
}

template <typename Row>
void numel(const Row& row, FieldValue& value) {
  value.set_integer(element_count(row.tables.shapes[row.shape()]));
}

template <typename Row>
void activation_memory(const Row& row, FieldValue& value) {
  std::int64_t bytes = element_count(row.tables.shapes[row.shape()]);
  if (__builtin_mul_overflow(bytes, static_cast<std::int64_t>(item_bytes(row.dtype())), &bytes)) bytes = INT64_MAX;
  value.set_integer(bytes);
}

/// A text of the instruction.
template <typename Row>
void instruction_text(const Row& row, const Column<std::int32_t>& column, FieldValue& value) {
  if (row.instruction() < 0) return value.set_none();
  value.set_text(row.tables.strings[column[static_cast<std::size_t>(row.instruction())]]);
}

template <typename Row>
void layer_type(const Row& row, FieldValue& value) {
  constexpr std::string_view kOthers[] = {"", "input", "buffer", "output"};
  if (row.kind() != OpKind::kOperation) return value.set_text(kOthers[static_cast<std::size_t>(row.kind()) % 4]);
  instruction_text(row, row.tables.instructions.layer_type, value);
}

template <typename Row>
void func_name(const Row& row, FieldValue& value) {
  instruction_text(row, row.tables.instructions.func_name, value);
}

template <typename Row>
void arguments(const Row& row, FieldValue& value) {
  instruction_text(row, row.tables.instructions.arg_template, value);
}

template <typename Row>
void var_names(const Row& row, FieldValue& value) {
  instruction_text(row, row.tables.instructions.value_names, value);
}

template <typename Row>
void func_qualname(const Row& row, FieldValue& value) {
  if (row.instruction() < 0) return value.set_none();
  const auto at = static_cast<std::size_t>(row.instruction());
  value.owned = row.tables.strings[row.tables.instructions.op_name[at]];
  const auto overload = row.tables.strings[row.tables.instructions.overload[at]];
  if (!overload.empty()) value.owned.append(".").append(overload);
  value.set_owned();
}

template <typename Row>
void code_context(const Row& row, FieldValue& value) {
  const auto site =
      row.instruction() < 0 ? -1 : row.tables.instructions.call_site[static_cast<std::size_t>(row.instruction())];
  if (site < 0) return value.set_none();
  const auto& sites = row.tables.call_sites;
  const auto at = static_cast<std::size_t>(site);
  value.owned = row.tables.strings[sites.file[at]];
  if (sites.line[at] > 0) value.owned.append(":").append(std::to_string(sites.line[at]));
  if (sites.column[at] >= 0) value.owned.append(":").append(std::to_string(sites.column[at]));
  const auto function = row.tables.strings[sites.function[at]];
  if (!function.empty()) value.owned.append(" in ").append(function);
  value.set_owned();
}

/// Innermost module instance; -1 at the root.
template <typename Row>
std::int32_t module_of(const Row& row) {
  const auto call = row.module_call();
  return call <= 0 ? -1 : row.tables.module_calls.module[static_cast<std::size_t>(call)];
}

template <typename Row>
void module(const Row& row, FieldValue& value) {
  const auto found = module_of(row);
  if (found < 0) return value.set_none();
  value.owned = row.tables.strings[row.tables.modules.address[static_cast<std::size_t>(found)]];
  value.owned.append(":").append(
      std::to_string(row.tables.module_calls.call_index[static_cast<std::size_t>(row.module_call())]));
  value.set_owned();
}

template <typename Row>
void module_text(const Row& row, const Column<std::int32_t>& column, FieldValue& value) {
  const auto found = module_of(row);
  if (found < 0) return value.set_none();
  value.set_text(row.tables.strings[column[static_cast<std::size_t>(found)]]);
}

template <typename Row>
void module_address(const Row& row, FieldValue& value) {
  module_text(row, row.tables.modules.address, value);
}

template <typename Row>
void module_type(const Row& row, FieldValue& value) {
  module_text(row, row.tables.modules.class_name, value);
}

template <typename Row>
void device(const Row& row, FieldValue& value) {
  constexpr std::string_view kNames[] = {"cpu", "cuda", "meta"};
  const auto number = static_cast<std::size_t>(row.device());
  value.set_text(number < std::size(kNames) ? kNames[number] : std::string_view("other"));
}

template <typename Row>
void io_role(const Row& row, FieldValue& value) {
  if (row.kind() != OpKind::kInput && row.kind() != OpKind::kOutput) return value.set_none();
  value.set_text(row.tables.strings[row.address()]);
}

template <typename Row>
void multi_output_index(const Row& row, FieldValue& value) {
  if (row.num_slots() <= 1) return value.set_none();
  value.set_integer(row.slot());
}

template <typename Row>
void in_multi_output(const Row& row, FieldValue& value) {
  value.set_bool(row.num_slots() > 1);
}

template <OpKind kWanted>
struct is_kind {
  template <typename Row>
  static void get(const Row& row, FieldValue& value) {
    value.set_bool(row.kind() == kWanted);
  }
};

template <std::uint32_t kFlag>
struct has_flag {
  template <typename Row>
  static void get(const Row& row, FieldValue& value) {
    value.set_bool((row.flags() & kFlag) != 0);
  }
};

}  // namespace facts

/// The fields that are known as soon as an Op ran: TL_LIVE_FIELD(name, function).
#define TL_LIVE_FIELDS(TL_LIVE_FIELD)                                  \
  TL_LIVE_FIELD("dtype", facts::dtype)                                 \
  TL_LIVE_FIELD("shape", facts::shape)                                 \
  TL_LIVE_FIELD("ndim", facts::ndim)                                   \
  TL_LIVE_FIELD("numel", facts::numel)                                 \
  TL_LIVE_FIELD("activation_memory", facts::activation_memory)         \
  TL_LIVE_FIELD("device", facts::device)                               \
  TL_LIVE_FIELD("func_name", facts::func_name)                         \
  TL_LIVE_FIELD("func_qualname", facts::func_qualname)                 \
  TL_LIVE_FIELD("layer_type", facts::layer_type)                       \
  TL_LIVE_FIELD("module", facts::module)                               \
  TL_LIVE_FIELD("module_address", facts::module_address)               \
  TL_LIVE_FIELD("module_type", facts::module_type)                     \
  TL_LIVE_FIELD("code_context", facts::code_context)                   \
  TL_LIVE_FIELD("arguments", facts::arguments)                         \
  TL_LIVE_FIELD("var_names", facts::var_names)                         \
  TL_LIVE_FIELD("io_role", facts::io_role)                             \
  TL_LIVE_FIELD("in_multi_output", facts::in_multi_output)             \
  TL_LIVE_FIELD("multi_output_index", facts::multi_output_index)       \
  TL_LIVE_FIELD("is_compute", facts::is_kind<OpKind::kOperation>::get) \
  TL_LIVE_FIELD("is_input", facts::is_kind<OpKind::kInput>::get)       \
  TL_LIVE_FIELD("is_buffer", facts::is_kind<OpKind::kBuffer>::get)     \
  TL_LIVE_FIELD("is_inplace", facts::has_flag<kOpInPlace>::get)        \
  TL_LIVE_FIELD("is_view", facts::has_flag<kOpView>::get)              \
  TL_LIVE_FIELD("is_random", facts::has_flag<kOpRandom>::get)          \
  TL_LIVE_FIELD("is_uninitialised", facts::has_flag<kOpUninitialised>::get)

}  // namespace tl

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trace/text_names.h"
#include "trace/text_tokens.h"
#include "trace/trace.h"

namespace tl::text_form {

/// Packed run-time arguments as `[0:int(3),1:op(sum_1_4_raw),2:ints(1,2)<f7]`; words that do not unpack to themselves
/// as `words[…]`.
void append_args(std::string& out, const Trace& trace, const RowNames& names, std::span<const std::int64_t> words);
/// Reads what append_args wrote; appends the words.
void read_args(Cursor& cursor, Trace& trace, const RowNames& names, std::vector<std::int64_t>& words);

/// One host value of a flow row, `int(3)`.
void append_flow_value(std::string& out, const Trace& trace, const RowNames& names, std::uint8_t tag,
                       std::int64_t value);
void read_flow_value(Cursor& cursor, Trace& trace, const RowNames& names, std::uint8_t& tag, std::int64_t& value);

/// A reference as read: a name, `-`, `end` or `#n`. Fails on a name that no row has.
std::int64_t read_reference(Cursor& cursor, const RowNames& names, std::string_view table);

}  // namespace tl::text_form

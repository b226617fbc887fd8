#include "trace/text_args.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "trace/args.h"

namespace tl::text_form {
namespace {

constexpr std::array<std::string_view, 11> kTags = {"none",    "int",   "bool", "double", "string", "ints",
                                                    "doubles", "bools", "op",   "other",  "tensor"};

bool is_text(ArgTag tag) { return tag == ArgTag::kString || tag == ArgTag::kOther; }
bool is_double(ArgTag tag) { return tag == ArgTag::kDouble || tag == ArgTag::kDoubleList; }

void append_payload_word(std::string& out, const Trace& trace, const RowNames& names, ArgTag tag, std::int64_t word) {
  if (is_double(tag)) {
    append_double(out, std::bit_cast<double>(word));
  } else if (tag == ArgTag::kOp) {
    names.append(out, "ops", word);
  } else if (is_text(tag) && word >= 0 && static_cast<std::uint64_t>(word) < trace.strings.size()) {
    append_quoted(out, trace.strings[static_cast<std::int32_t>(word)]);
  } else if (is_text(tag)) {
    out += '#';
    append_integer(out, word);
  } else {
    append_integer(out, word);
  }
}

std::int64_t read_payload_word(Cursor& cursor, Trace& trace, const RowNames& names, ArgTag tag) {
  if (is_double(tag)) return std::bit_cast<std::int64_t>(cursor.number());
  if (tag == ArgTag::kOp) return read_reference(cursor, names, "ops");
  if (!is_text(tag)) return cursor.integer();
  const auto word = cursor.word();
  std::int64_t row = 0;
  return parse_row_number(word, row) ? row : trace.strings.intern(word.text);
}

ArgTag read_tag(Cursor& cursor) {
  const auto word = cursor.word();
  const auto found = std::ranges::find(kTags, word.text);
  if (found == kTags.end()) cursor.fail("unknown kind of value `" + word.text + "`");
  return static_cast<ArgTag>(found - kTags.begin());
}

/// True if the words are whole packed arguments with known tags and nothing in the unused bits.
bool unpacks_to_itself(std::span<const std::int64_t> words) {
  std::size_t used = 0;
  bool known = true;
  for_each_arg(words, [&](const ArgHeader& header, std::span<const std::int64_t> payload) {
    known = known && static_cast<std::size_t>(header.tag) < kTags.size() && header.pack() == words[used];
    used += 1 + (is_list(header.tag) ? 1 : 0) + payload.size();
  });
  return known && used == words.size();
}

}  // namespace

void append_args(std::string& out, const Trace& trace, const RowNames& names, std::span<const std::int64_t> words) {
  bool first = true;
  if (!unpacks_to_itself(words)) {
    out += "words[";
    for (const auto word : words) {
      if (!first) out += ',';
      first = false;
      append_integer(out, word);
    }
    out += ']';
    return;
  }
  out += '[';
  for_each_arg(words, [&](const ArgHeader& header, std::span<const std::int64_t> payload) {
    if (!first) out += ',';
    first = false;
    append_integer(out, header.position);
    out += ':';
    out += kTags[static_cast<std::size_t>(header.tag)];
    out += '(';
    for (std::size_t i = 0; i < payload.size(); ++i) {
      if (i > 0) out += ',';
      append_payload_word(out, trace, names, header.tag, payload[i]);
    }
    out += ')';
    if (header.flow != ArgHeader::kNoFlow) {
      out += '<';
      names.append(out, "flow", header.flow);
    }
  });
  out += ']';
}

void read_args(Cursor& cursor, Trace& trace, const RowNames& names, std::vector<std::int64_t>& words) {
  if (cursor.peek() == 'w') {
    if (!cursor.word().is("words")) cursor.fail("expected `words`");
    cursor.expect('[');
    while (!cursor.accept(']')) {
      words.push_back(cursor.integer());
      if (cursor.peek() != ']') cursor.expect(',');
    }
    return;
  }
  cursor.expect('[');
  while (!cursor.accept(']')) {
    ArgHeader header;
    const auto position = cursor.integer();
    if (position < 0 || position > std::numeric_limits<std::uint16_t>::max())
      cursor.fail("argument position out of range");
    header.position = static_cast<std::uint16_t>(position);
    cursor.expect(':');
    header.tag = read_tag(cursor);
    const auto at = words.size();
    words.push_back(0);
    if (is_list(header.tag)) words.push_back(0);
    const auto begin = words.size();
    cursor.expect('(');
    while (!cursor.accept(')')) {
      words.push_back(read_payload_word(cursor, trace, names, header.tag));
      if (cursor.peek() != ')') cursor.expect(',');
    }
    const auto count = words.size() - begin;
    if (is_list(header.tag)) {
      words[begin - 1] = static_cast<std::int64_t>(count);
    } else if (count != (header.tag == ArgTag::kNone ? 0U : 1U)) {
      cursor.fail("wrong number of values for " + std::string(kTags[static_cast<std::size_t>(header.tag)]));
    }
    if (cursor.accept('<')) {
      const auto flow = read_reference(cursor, names, "flow");
      if (flow < 0 || flow >= ArgHeader::kNoFlow) cursor.fail("flow row out of range");
      header.flow = static_cast<std::uint32_t>(flow);
    }
    words[at] = header.pack();
    if (cursor.peek() != ']') cursor.expect(',');
  }
}

void append_flow_value(std::string& out, const Trace& trace, const RowNames& names, std::uint8_t tag,
                       std::int64_t value) {
  if (tag >= kTags.size()) {
    out += "tag" + std::to_string(tag) + "(";
    append_integer(out, value);
    out += ')';
    return;
  }
  out += kTags[tag];
  out += '(';
  const auto kind = static_cast<ArgTag>(tag);
  if (is_list(kind)) {
    append_integer(out, value);
  } else if (kind != ArgTag::kNone || value != 0) {
    append_payload_word(out, trace, names, kind, value);
  }
  out += ')';
}

void read_flow_value(Cursor& cursor, Trace& trace, const RowNames& names, std::uint8_t& tag, std::int64_t& value) {
  const auto word = cursor.word();
  const auto found = std::ranges::find(kTags, word.text);
  cursor.expect('(');
  value = 0;
  if (found == kTags.end()) {
    if (!word.text.starts_with("tag")) cursor.fail("unknown kind of value `" + word.text + "`");
    const auto raw = Cursor(std::string_view(word.text).substr(3), cursor.line_number()).integer();
    if (raw < 0 || raw > 255) cursor.fail("tag out of range");
    tag = static_cast<std::uint8_t>(raw);
    value = cursor.integer();
  } else {
    tag = static_cast<std::uint8_t>(found - kTags.begin());
    const auto kind = static_cast<ArgTag>(tag);
    if (cursor.peek() != ')') value = is_list(kind) ? cursor.integer() : read_payload_word(cursor, trace, names, kind);
  }
  cursor.expect(')');
}

std::int64_t read_reference(Cursor& cursor, const RowNames& names, std::string_view table) {
  const auto word = cursor.word();
  std::int64_t row = 0;
  if (parse_row_number(word, row)) return row;
  if (word.is("-")) return -1;
  if (word.is("end")) return static_cast<std::int64_t>(names.size(table));
  const auto found = names.find(table, word.text);
  if (found < 0) cursor.fail("no row of " + std::string(table) + " has the name `" + word.text + "`");
  return found;
}

}  // namespace tl::text_form

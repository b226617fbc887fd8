#include "diff/arguments.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>

#include "diff/side.h"
#include "trace/args.h"

namespace tl {
namespace {

std::size_t row_of(std::int32_t value) { return static_cast<std::size_t>(value); }

/// Splits at commas that stand outside brackets and quotes.
std::vector<std::string_view> split_top(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quoted) {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '(' || c == '{')) {
      ++depth;
    } else if (!quoted && (c == ']' || c == ')' || c == '}')) {
      --depth;
    } else if (!quoted && c == ',' && depth == 0) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (begin < text.size()) parts.push_back(text.substr(begin));
  for (auto& part : parts) {
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
  }
  return parts;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string word_text(ArgTag tag, std::int64_t word, const Trace& trace) {
  switch (tag) {
    case ArgTag::kInt:
    case ArgTag::kIntList:
      return std::to_string(word);
    case ArgTag::kBool:
    case ArgTag::kBoolList:
      return word ? "True" : "False";
    case ArgTag::kDouble:
    case ArgTag::kDoubleList: {
      double value;
      std::memcpy(&value, &word, sizeof value);
      return number_text(value);
    }
    case ArgTag::kString:
    case ArgTag::kOther: {
      const auto text = trace.strings[static_cast<std::int32_t>(word)];
      return tag == ArgTag::kOther ? std::string(text) : "\"" + std::string(text) + "\"";
    }
    default:
      return "?";
  }
}

std::string packed_text(const ArgHeader& header, std::span<const std::int64_t> words, const Trace& trace) {
  if (header.tag == ArgTag::kNone) return "None";
  if (!is_list(header.tag)) return word_text(header.tag, words[0], trace);
  std::string text = "[";
  for (std::size_t i = 0; i < words.size(); ++i) text += (i ? ", " : "") + word_text(header.tag, words[i], trace);
  return text + "]";
}

std::optional<double> number_of(std::string_view text) {
  if (text == "True") return 1;
  if (text == "False") return 0;
  if (text == "inf" || text == "-inf") return text == "inf" ? HUGE_VAL : -HUGE_VAL;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool same_number(double a, double b) { return a == b || std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

/// The elements of a list literal; a scalar is a list of one.
std::vector<std::string_view> elements(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return {text};
  return split_top(text.substr(1, text.size() - 2));
}

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// How a value is computed or kept, not which.
constexpr std::array<std::string_view, 15> kImmaterial = {
    "cudnn_enable", "cudnn_enabled", "benchmark",          "deterministic", "allow_tf32",
    "layout",       "device",        "pin_memory",         "non_blocking",  "copy",
    "implicit",     "memory_format", "scale_grad_by_freq", "sparse",        "sparse_grad"};
/// Sizes that the shape of the output tells too.
constexpr std::array<std::string_view, 7> kSizes = {"size",        "sizes",      "shape", "output_size",
                                                    "split_sizes", "split_size", "end"};
constexpr std::array<std::string_view, 8> kDims = {"dim",  "dims",      "axis",    "dim0",
                                                   "dim1", "start_dim", "end_dim", "start"};

/// Operands that no operation does without: shown as None where a host value stands for the tensor.
constexpr std::array<std::string_view, 5> kRequired = {"self", "other", "value", "input", "mat2"};

/// Dims counted from the front and from the back name the same axis of a tensor of that rank.
bool same_dims(std::string_view a, std::string_view b, std::int64_t rank) {
  const auto left = elements(a);
  const auto right = elements(b);
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const auto x = number_of(left[i]);
    const auto y = number_of(right[i]);
    if (!x || !y) return false;
    const auto apart = std::abs(*x - *y);
    const bool wrapped =
        (*x < 0) != (*y < 0) && (apart == static_cast<double>(rank) || apart == static_cast<double>(rank + 1));
    if (apart != 0 && !wrapped) return false;
  }
  return true;
}

struct OpSideFacts {
  const Trace& trace;
  OpId op;
  std::vector<OpArgument> arguments = arguments_of(trace, op);
  std::span<const std::int64_t> sizes = trace.shapes[trace.ops.shape[op.index()]];
  std::string_view operator_name = trace.strings[trace.instructions.op_name[row_of(trace.ops.instruction[op.index()])]];

  const OpArgument* find(std::string_view name) const {
    const auto found = std::ranges::find(arguments, name, &OpArgument::name);
    return found == arguments.end() ? nullptr : &*found;
  }
  std::int64_t input_rank() const {
    const auto [begin, end] = edge_range(trace, op);
    if (begin == end) return static_cast<std::int64_t>(sizes.size());
    return static_cast<std::int64_t>(trace.shapes[trace.ops.shape[row_of(trace.edges.parent[begin])]].size());
  }
};

/// A 0-d tensor where the other dialect has a number, or a value that is shown by its type only: `f64[]`.
bool is_unknown(std::string_view text) { return text == "?" || (text.find('[') != 0 && text.ends_with(']')); }

bool is_none(const OpArgument& argument) {
  return (argument.text == "none" || argument.text == "None") && !is_one_of(argument.name, kRequired);
}

bool is_open_end(std::string_view text) { return text == "None" || text == "0" || text == "9223372036854775807"; }

bool immaterial(const OpArgument& a, const OpArgument& b, const OpSideFacts& reference, const OpSideFacts& subject) {
  if (is_one_of(a.name, kImmaterial)) return true;
  if (is_unknown(a.text) || is_unknown(b.text)) return true;
  const bool same_shape = std::ranges::equal(reference.sizes, subject.sizes);
  if (same_shape && is_one_of(a.name, kSizes)) return true;
  if (a.name == "start" && is_open_end(a.text) && is_open_end(b.text)) return true;
  if ((a.text == "None" || b.text == "None") && is_one_of(a.name, kRequired)) return true;
  // A default that one dialect writes out.
  if (a.text == "None" || b.text == "None") {
    if (a.name == "dtype" || a.name == "stride" || a.name == "scale" || a.name == "divisor_override") return true;
  }
  if (a.name == "momentum" || a.name == "p") {  // without effect in evaluation
    const auto* mode = reference.find(a.name == "p" ? "train" : "training");
    const auto* other = subject.find(a.name == "p" ? "train" : "training");
    if (mode && other && mode->text == "False" && other->text == "False") return true;
  }
  return is_one_of(a.name, kDims) && same_dims(a.text, b.text, reference.input_rank());
}

/// The parameters that an operation was given at a position, several where it takes a list.
std::vector<std::int32_t> params_at(const OpSideFacts& side, std::size_t position) {
  std::vector<std::int32_t> params;
  const auto& uses = side.trace.param_uses;
  const auto first = std::ranges::lower_bound(uses.op, static_cast<std::int32_t>(side.op.value));
  for (auto use = static_cast<std::size_t>(first - uses.op.begin());
       use < uses.op.size() && uses.op[use] == static_cast<std::int32_t>(side.op.value); ++use) {
    if (uses.arg[use] == static_cast<std::int16_t>(position)) params.push_back(uses.param[use]);
  }
  return params;
}

void compare_parameters(const OpSideFacts& reference, const OpSideFacts& subject, const std::string& name,
                        std::size_t r_position, std::size_t s_position, std::vector<ArgumentDifference>& differences) {
  const auto ours = params_at(reference, r_position);
  const auto theirs = params_at(subject, s_position);
  const auto text = [](const Trace& trace, std::int32_t param, std::string_view digest) {
    return std::string(trace.strings[trace.params.address[row_of(param)]]) + " " + std::string(digest.substr(0, 8));
  };
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    const auto r_digest = reference.trace.params.digest[row_of(ours[i])];
    const auto s_digest = subject.trace.params.digest[row_of(theirs[i])];
    if (r_digest < 0 || s_digest < 0) continue;
    const auto r_text = reference.trace.strings[r_digest];
    const auto s_text = subject.trace.strings[s_digest];
    if (r_text == s_text) continue;
    differences.push_back({name, text(reference.trace, ours[i], r_text), text(subject.trace, theirs[i], s_text)});
  }
}

/// True where nothing but numbers was given at run time, and the same on both sides.
bool same_numbers(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  if (a.size() != b.size()) return false;
  if (a.empty()) return true;
  bool numbers = true;
  const auto look = [&](const ArgHeader& header, std::span<const std::int64_t>) {
    numbers = numbers && header.tag != ArgTag::kString && header.tag != ArgTag::kOther && header.tag != ArgTag::kOp;
  };
  for_each_arg(a, look);
  for_each_arg(b, look);
  if (!numbers) return false;
  std::vector<std::int64_t> left;
  std::vector<std::int64_t> right;
  const auto keep = [](std::vector<std::int64_t>& words) {
    return [&words](const ArgHeader& header, std::span<const std::int64_t> values) {
      words.push_back(ArgHeader{header.tag, header.position}.pack());
      words.insert(words.end(), values.begin(), values.end());
    };
  };
  for_each_arg(a, keep(left));
  for_each_arg(b, keep(right));
  return left == right;
}

bool same_edges(const Trace& a, OpId a_op, const Trace& b, OpId b_op) {
  const auto [a_begin, a_end] = edge_range(a, a_op);
  const auto [b_begin, b_end] = edge_range(b, b_op);
  return std::ranges::equal(a.edges.arg.view().subspan(a_begin, a_end - a_begin),
                            b.edges.arg.view().subspan(b_begin, b_end - b_begin));
}

bool reads_parameters(const Trace& trace, OpId op) {
  return std::ranges::binary_search(trace.param_uses.op, static_cast<std::int32_t>(op.value));
}

/// Most pairs are alike word by word; nothing needs to be taken apart then.
bool plainly_equal(const Trace& a, OpId a_op, const Trace& b, OpId b_op) {
  const auto a_row = row_of(a.ops.instruction[a_op.index()]);
  const auto b_row = row_of(b.ops.instruction[b_op.index()]);
  return a.strings[a.instructions.arg_template[a_row]] == b.strings[b.instructions.arg_template[b_row]] &&
         a.strings[a.instructions.op_name[a_row]] == b.strings[b.instructions.op_name[b_row]] &&
         same_numbers(op_args(a, a_op), op_args(b, b_op)) && same_edges(a, a_op, b, b_op) &&
         !reads_parameters(a, a_op) && !reads_parameters(b, b_op);
}

std::string sizes_text(std::span<const std::int64_t> sizes) {
  std::string text = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) text += (i ? "," : "") + std::to_string(sizes[i]);
  return text + "]";
}

}  // namespace

std::vector<OpArgument> arguments_of(const Trace& trace, OpId op) {
  std::vector<OpArgument> arguments;
  const auto instruction = trace.ops.instruction[op.index()];
  if (instruction < 0) return arguments;
  for (const auto part : split_top(trace.strings[trace.instructions.arg_template[row_of(instruction)]])) {
    const auto equals = part.find('=');
    const bool named = equals != std::string_view::npos && part.find('"') > equals && part.find('[') > equals;
    OpArgument argument;
    if (named) argument.name = part.substr(0, equals);
    argument.text = named ? part.substr(equals + 1) : part;
    if (argument.text.starts_with("%")) argument.text = "none";
    if (argument.text.starts_with("$")) argument.text = "?";
    arguments.push_back(std::move(argument));
  }
  const auto give = [&](std::int64_t position, const std::string& text, bool tensor) {
    if (position < 0 || static_cast<std::size_t>(position) >= arguments.size()) return;
    arguments[static_cast<std::size_t>(position)].text = text;
    arguments[static_cast<std::size_t>(position)].is_tensor = tensor;
  };
  for_each_arg(op_args(trace, op), [&](const ArgHeader& header, std::span<const std::int64_t> words) {
    give(header.position, packed_text(header, words, trace), false);
  });
  const auto [begin, end] = edge_range(trace, op);
  for (auto edge = begin; edge < end; ++edge) give(trace.edges.arg[edge], "tensor", true);
  const auto& uses = trace.param_uses;
  const auto first = std::ranges::lower_bound(uses.op, static_cast<std::int32_t>(op.value));
  for (auto use = static_cast<std::size_t>(first - uses.op.begin());
       use < uses.op.size() && uses.op[use] == static_cast<std::int32_t>(op.value); ++use) {
    give(uses.arg[use], "tensor", true);
  }
  return arguments;
}

bool same_literal(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const auto left = elements(a);
  const auto right = elements(b);
  if (left.empty() || right.empty()) return left.empty() && right.empty();
  const bool repeated = left.size() == 1 || right.size() == 1;
  if (left.size() != right.size() && !repeated) return false;
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const auto x = left[std::min(i, left.size() - 1)];
    const auto y = right[std::min(i, right.size() - 1)];
    if (x == y) continue;
    const auto m = number_of(x);
    const auto n = number_of(y);
    if (!m || !n || !same_number(*m, *n)) return false;
  }
  return true;
}

std::vector<ArgumentDifference> argument_differences(const Trace& reference_trace, OpId reference_op,
                                                     const Trace& subject_trace, OpId subject_op) {
  std::vector<ArgumentDifference> differences;
  const auto r_row = reference_op.index();
  const auto s_row = subject_op.index();
  if (reference_trace.ops.dtype[r_row] != subject_trace.ops.dtype[s_row]) {
    differences.push_back({"dtype", std::string(short_name(static_cast<DType>(reference_trace.ops.dtype[r_row]))),
                           std::string(short_name(static_cast<DType>(subject_trace.ops.dtype[s_row])))});
  }
  const auto r_sizes = reference_trace.shapes[reference_trace.ops.shape[r_row]];
  const auto s_sizes = subject_trace.shapes[subject_trace.ops.shape[s_row]];
  if (!std::ranges::equal(r_sizes, s_sizes)) differences.push_back({"shape", sizes_text(r_sizes), sizes_text(s_sizes)});
  if (reference_trace.ops.instruction[r_row] < 0 || subject_trace.ops.instruction[s_row] < 0) return differences;
  if (plainly_equal(reference_trace, reference_op, subject_trace, subject_op)) return differences;
  const OpSideFacts reference{reference_trace, reference_op};
  const OpSideFacts subject{subject_trace, subject_op};
  const auto r_type = canonical_type(layer_type(reference_trace, reference_op));
  const auto s_type = canonical_type(layer_type(subject_trace, subject_op));
  if (r_type != s_type) {
    if (is_neutral(reference_trace, r_row) && is_neutral(subject_trace, s_row)) return differences;
    differences.push_back({"operator", std::string(reference.operator_name), std::string(subject.operator_name)});
    return differences;
  }
  for (std::size_t position = 0; position < reference.arguments.size(); ++position) {
    const auto& ours = reference.arguments[position];
    const auto* theirs = ours.name.empty() ? nullptr : subject.find(ours.name);
    if (!theirs) continue;
    if (ours.is_tensor != theirs->is_tensor) {
      if (!is_none(ours) && !is_none(*theirs)) continue;  // a number against a 0-d tensor
      const auto shown = [](const OpArgument& argument) { return is_none(argument) ? "none" : argument.text; };
      differences.push_back({ours.name, shown(ours), shown(*theirs)});
    } else if (ours.is_tensor) {
      const auto s_position = static_cast<std::size_t>(theirs - subject.arguments.data());
      compare_parameters(reference, subject, ours.name, position, s_position, differences);
    } else if (!same_literal(ours.text, theirs->text) && ours.text != "none" && theirs->text != "none" &&
               !immaterial(ours, *theirs, reference, subject)) {
      differences.push_back({ours.name, ours.text, theirs->text});
    }
  }
  return differences;
}

}  // namespace tl

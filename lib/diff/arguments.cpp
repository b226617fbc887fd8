#include "diff/arguments.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>

#include "diff/argument_rules.h"
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

std::optional<std::int64_t> integer_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
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

/// Integers are equal or not; of real numbers one may have been rounded to single precision.
bool same_element(std::string_view x, std::string_view y) {
  if (x == y) return true;
  if (integer_of(x) && integer_of(y)) return integer_of(x) == integer_of(y);
  const auto a = number_of(x);
  const auto b = number_of(y);
  if (!a || !b) return false;
  return *a == *b || (std::isfinite(*a) && std::isfinite(*b) &&
                      std::abs(*a - *b) <= 0x1p-23 * std::max(std::abs(*a), std::abs(*b)));
}

/// The parameters that an operation was given at a position, several where it takes a list.
std::vector<std::int32_t> params_at(const OpCall& side, std::size_t position) {
  std::vector<std::int32_t> params;
  const auto& uses = side.trace.param_uses;
  const auto first = std::ranges::lower_bound(uses.op, static_cast<std::int32_t>(side.op.value));
  for (auto use = static_cast<std::size_t>(first - uses.op.begin());
       use < uses.op.size() && uses.op[use] == static_cast<std::int32_t>(side.op.value); ++use) {
    if (uses.arg[use] == static_cast<std::int16_t>(position)) params.push_back(uses.param[use]);
  }
  return params;
}

void compare_parameters(const OpCall& reference, const OpCall& subject, const std::string& name, std::size_t r_position,
                        std::size_t s_position, std::vector<ArgumentDifference>& differences) {
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

/// The differing texts of one argument that both calls have, put behind `differences`.
void compare_argument(const OpCall& reference, std::size_t position, const OpCall& subject, const OpArgument& theirs,
                      std::vector<ArgumentDifference>& differences) {
  const auto& ours = reference.arguments[position];
  const auto& left_number = ours.is_tensor ? ours.number : ours.text;
  const auto& right_number = theirs.is_tensor ? theirs.number : theirs.text;
  if ((ours.is_tensor || theirs.is_tensor) && number_of(left_number) && number_of(right_number)) {
    if (!same_literal(left_number, right_number)) differences.push_back({ours.name, left_number, right_number});
  } else if (ours.is_tensor != theirs.is_tensor) {
    if (!is_none(ours) && !is_none(theirs)) return;  // a number against a tensor whose value is not known
    const auto shown = [](const OpArgument& argument) { return is_none(argument) ? "none" : argument.text; };
    differences.push_back({ours.name, shown(ours), shown(theirs)});
  } else if (ours.is_tensor) {
    const auto s_position = static_cast<std::size_t>(&theirs - subject.arguments.data());
    compare_parameters(reference, subject, ours.name, position, s_position, differences);
  } else if (ours.text != "none" && theirs.text != "none" && !is_immaterial(ours, theirs, reference, subject)) {
    const auto left = meaning_of(ours, reference);
    const auto right = meaning_of(theirs, subject);
    if (same_literal(left.value, right.value)) return;
    ArgumentDifference difference{ours.name, left.shown, right.shown};
    const auto told = [&](const ArgumentDifference& other) {  // the dtype of the output
      return other.name == difference.name && other.reference == left.value && other.subject == right.value;
    };
    if (!std::ranges::any_of(differences, told)) differences.push_back(std::move(difference));
  }
}

}  // namespace

std::vector<std::string_view> list_elements(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return {text};
  return split_top(text.substr(1, text.size() - 2));
}

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
    auto& argument = arguments[static_cast<std::size_t>(position)];
    if (tensor && number_of(argument.text)) argument.number = argument.text;
    argument.text = text;
    argument.is_tensor = tensor;
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
  const auto left = list_elements(a);
  const auto right = list_elements(b);
  if (left.empty() || right.empty()) return left.empty() && right.empty();
  const bool repeated = left.size() == 1 || right.size() == 1;
  if (left.size() != right.size() && !repeated) return false;
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    if (!same_element(left[std::min(i, left.size() - 1)], right[std::min(i, right.size() - 1)])) return false;
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
  const OpCall reference{reference_trace, reference_op};
  const OpCall subject{subject_trace, subject_op};
  const auto r_type = canonical_type(layer_type(reference_trace, reference_op));
  const auto s_type = canonical_type(layer_type(subject_trace, subject_op));
  if (r_type != s_type) {
    if (is_neutral(reference_trace, r_row) && is_neutral(subject_trace, s_row)) return differences;
    differences.push_back({"operator", std::string(reference.operator_name()), std::string(subject.operator_name())});
    return differences;
  }
  for (std::size_t position = 0; position < reference.arguments.size(); ++position) {
    const auto& ours = reference.arguments[position];
    const auto* theirs = ours.name.empty() ? nullptr : subject.find(ours.name);
    if (theirs) compare_argument(reference, position, subject, *theirs, differences);
  }
  return differences;
}

bool draws_random(const Trace& trace, OpId op) {
  if (!(trace.ops.flags[op.index()] & kOpRandom)) return false;
  const auto arguments = arguments_of(trace, op);
  const auto is = [&](std::string_view name, std::string_view value) {
    const auto found = std::ranges::find(arguments, name, &OpArgument::name);
    return found != arguments.end() && same_literal(found->text, value);
  };
  const bool trains = std::ranges::find(arguments, "train", &OpArgument::name) != arguments.end();
  return !is("train", "False") && !is("training", "False") && !is("dropout_p", "0") && !is("dropout", "0") &&
         !(trains && is("p", "0"));
}

}  // namespace tl

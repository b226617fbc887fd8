#include "cost/call_facts.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace tl {
namespace {

/// Elements of a list argument are counted in 16 bits.
constexpr std::int32_t kMaxSub = std::numeric_limits<std::int16_t>::max();

std::size_t row(std::int32_t value) { return static_cast<std::size_t>(value); }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool is_identifier(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

/// The parts between commas that stand in no brackets and no quotes.
std::vector<std::string_view> split_top_level(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '(' || c == '{') {
      ++depth;
    } else if (c == ']' || c == ')' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      parts.push_back(trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  if (const auto last = trimmed(text.substr(begin)); !last.empty()) parts.push_back(last);
  return parts;
}

std::optional<std::int64_t> parse_int(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

/// `3`, or `[3, 3]`.
std::optional<std::vector<std::int64_t>> parse_ints(std::string_view text) {
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    std::vector<std::int64_t> values;
    for (const auto part : split_top_level(text.substr(1, text.size() - 2))) {
      const auto value = parse_int(part);
      if (!value) return {};
      values.push_back(*value);
    }
    return values;
  }
  if (const auto value = parse_int(text)) return std::vector<std::int64_t>{*value};
  return {};
}

}  // namespace

ArgTemplate::ArgTemplate(std::string_view text) {
  for (const auto part : split_top_level(text)) {
    const auto equals = part.find('=');
    if (equals != std::string_view::npos && is_identifier(part.substr(0, equals))) {
      entries_.push_back({part.substr(0, equals), part.substr(equals + 1)});
    } else {
      entries_.push_back({{}, part});
    }
  }
}

std::optional<std::size_t> ArgTemplate::position(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  if (found == entries_.end()) return {};
  return static_cast<std::size_t>(found - entries_.begin());
}

void CallFacts::visit(OpId op) {
  op_ = op;
  tensors_.clear();
  const auto [begin, end] = edge_range(trace_, op);
  for (auto edge = begin; edge < end; ++edge) {
    const auto position = trace_.edges.arg[edge];
    if (position < 0 || trace_.edges.parent[edge] < 0) continue;
    const auto parent = row(trace_.edges.parent[edge]);
    tensors_.push_back({position, trace_.edges.sub[edge], sizes(trace_.ops.shape[parent]),
                        static_cast<DType>(trace_.ops.dtype[parent]), trace_.edges.parent[edge]});
  }
  take_own_shapes();
  const auto edges = tensors_.size();
  const auto& uses = trace_.param_uses;
  const auto wanted = static_cast<std::int32_t>(op.value);
  while (next_use_ < uses.op.size() && uses.op[next_use_] < wanted) ++next_use_;
  for (; next_use_ < uses.op.size() && uses.op[next_use_] == wanted; ++next_use_) {
    if (uses.param[next_use_] < 0) continue;
    const auto param = row(uses.param[next_use_]);
    tensors_.push_back({uses.arg[next_use_], -1, sizes(trace_.params.shape[param]),
                        static_cast<DType>(trace_.params.dtype[param]), -1 - std::int64_t{uses.param[next_use_]}});
  }
  if (tensors_.size() > edges) place_params(edges);
}

/// An edge to an Op that wrote to a view does not tell what the argument itself looks like; the arguments do.
void CallFacts::take_own_shapes() {
  for_each_arg(op_args(trace_, op_), [&](const ArgHeader& header, std::span<const std::int64_t> words) {
    if (header.tag != ArgTag::kTensor || words.size() < 2) return;
    const auto own = std::ranges::find_if(tensors_, [&](const TensorArg& tensor) {
      return tensor.position == static_cast<std::int16_t>(header.position) && tensor.sub == words[1];
    });
    const auto dims = words.subspan(2);
    if (own == tensors_.end() || std::ranges::any_of(dims, [](std::int64_t size) { return size < 0; })) return;
    own->dtype = static_cast<DType>(words[0] & 0xff);
    own->sizes = dims;
  });
}

/// Uses of parameters, which stand behind the edges, do not say which element of a list they are: in order, they take
/// those that no edge of the same argument has.
void CallFacts::place_params(std::size_t num_edges) {
  const auto by_place = [](const TensorArg& arg) { return std::pair(arg.position, arg.sub); };
  const auto params = tensors_.begin() + static_cast<std::ptrdiff_t>(num_edges);
  std::ranges::stable_sort(tensors_.begin(), params, {}, by_place);
  std::ranges::stable_sort(params, tensors_.end(), {}, &TensorArg::position);
  auto edge = tensors_.begin();
  std::int32_t free = 0;
  for (auto param = params; param != tensors_.end(); ++param) {
    if (param == params || param->position != (param - 1)->position) free = 0;
    while (edge != params && edge->position < param->position) ++edge;
    if (edge != params && edge->position == param->position && edge->sub < 0) continue;
    const bool list = free > 0 || (edge != params && edge->position == param->position);
    for (; edge != params && edge->position == param->position && edge->sub <= free; ++edge) free = edge->sub + 1;
    if (list) param->sub = static_cast<std::int16_t>(std::min(free++, kMaxSub));
  }
  std::ranges::stable_sort(tensors_, {}, by_place);
}

std::optional<std::span<const std::int64_t>> CallFacts::arg_sizes(std::size_t position, std::size_t sub) const {
  std::size_t seen = 0;
  for (const auto& arg : tensors_) {
    if (static_cast<std::size_t>(arg.position) != position || arg.position < 0) continue;
    if (arg.sub >= 0 ? static_cast<std::size_t>(arg.sub) == sub : seen == sub) return arg.sizes;
    ++seen;
  }
  return {};
}

const ArgTemplate& CallFacts::template_of() const {
  static const ArgTemplate kEmpty;
  const auto instruction = trace_.ops.instruction[op_.index()];
  if (instruction < 0) return kEmpty;
  if (templates_.empty()) templates_.resize(trace_.instructions.op_name.size());
  auto& slot = templates_[row(instruction)];
  if (!slot) slot.emplace(trace_.strings[trace_.instructions.arg_template[row(instruction)]]);
  return *slot;
}

std::optional<CallFacts::PackedArg> CallFacts::packed(std::size_t position) const {
  std::optional<PackedArg> found;
  for_each_arg(op_args(trace_, op_), [&](const ArgHeader& header, std::span<const std::int64_t> words) {
    if (header.position == position && !found) found = PackedArg{header.tag, words};
  });
  return found;
}

std::optional<std::vector<std::int64_t>> CallFacts::ints(std::string_view name) const {
  const auto position = template_of().position(name);
  if (!position) return {};
  if (const auto given = packed(*position)) {
    if (given->tag != ArgTag::kInt && given->tag != ArgTag::kIntList) return {};
    return std::vector<std::int64_t>(given->words.begin(), given->words.end());
  }
  return parse_ints(template_of().text(*position));
}

std::optional<bool> CallFacts::boolean(std::string_view name) const {
  const auto position = template_of().position(name);
  if (!position) return {};
  if (const auto given = packed(*position)) {
    if (given->tag != ArgTag::kBool || given->words.empty()) return {};
    return given->words[0] != 0;
  }
  const auto text = template_of().text(*position);
  if (text == "True") return true;
  if (text == "False") return false;
  return {};
}

std::optional<std::string> CallFacts::string(std::string_view name) const {
  const auto position = template_of().position(name);
  if (!position) return {};
  if (const auto given = packed(*position)) {
    if (given->tag != ArgTag::kString || given->words.empty()) return {};
    return std::string(trace_.strings[static_cast<std::int32_t>(given->words[0])]);
  }
  const auto text = template_of().text(*position);
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return {};
  return std::string(text.substr(1, text.size() - 2));
}

}  // namespace tl

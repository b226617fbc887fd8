#include "analysis/summary_rows.h"

#include <algorithm>
#include <charconv>

namespace tl {
namespace {

/// A table with fewer rows says little: the biggest part is gone into.
constexpr std::size_t kFewRows = 8;
constexpr std::size_t kManyRows = 24;
/// Deeper than any model; rows below are part of those above.
constexpr int kMaxLevels = 64;
/// Of the rows that are shown of a long list, the last.
constexpr std::size_t kTail = 8;

constexpr std::int64_t kMaxNumber = 1'000'000'000;

struct NumberedAddress {
  std::string_view prefix;   ///< with the dot; empty at the root
  std::int64_t number = -1;  ///< -1: the address does not end in a number
};

/// `layer1.0` is number 0 below `layer1.`.
NumberedAddress numbered(std::string_view address) {
  const auto dot = address.rfind('.');
  const auto digits = dot == std::string_view::npos ? address : address.substr(dot + 1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || number < 0 ||
      number > kMaxNumber) {
    return {};
  }
  return {address.substr(0, address.size() - digits.size()), number};
}

std::string_view without_dot(std::string_view prefix) {
  return prefix.ends_with('.') ? prefix.substr(0, prefix.size() - 1) : prefix;
}

/// An address as it stands below another: `layer1.0.conv1` below `layer1.0` is `conv1`.
std::string_view relative(std::string_view address, std::string_view above) {
  if (above.empty() || address.size() <= above.size() + 1 || !address.starts_with(above) ||
      address[above.size()] != '.') {
    return address;
  }
  return address.substr(above.size() + 1);
}

}  // namespace

int SummaryRows::levels() const {
  if (options_.depth > 0) return std::min(options_.depth, kMaxLevels);
  return options_.level == SummaryLevel::kAuto ? 1 : kMaxLevels;
}

std::vector<SummaryRow> SummaryRows::make(std::size_t base) {
  const bool choose = options_.level == SummaryLevel::kAuto && options_.depth == 0;
  emit(choose ? parts_of(base) : tree_[base].children, 0, "");
  return std::move(rows_);
}

/// The children of the base; as long as they make a short table, the one that most operations run in, if it is more
/// than half of them, gives way to its own children. Modules whose parts make one row give way too.
std::vector<std::size_t> SummaryRows::parts_of(std::size_t base) const {
  auto parts = tree_[base].children;
  const auto unfold = [&](std::size_t at) {
    const auto& inner = tree_[parts[at]].children;
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at));
    parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(at), inner.begin(), inner.end());
  };
  const auto has_modules = [&](std::size_t node) {
    return std::ranges::any_of(tree_[node].children, [&](std::size_t child) { return tree_[child].is_module(); });
  };
  for (int round = 0; round < kMaxLevels; ++round) {
    const auto rows = fold(parts).size();
    if (rows >= kFewRows || parts.empty()) break;
    const auto biggest = static_cast<std::size_t>(
        std::distance(parts.begin(),
                      std::ranges::max_element(parts, {}, [&](std::size_t node) { return tree_[node].cost.num_ops; })));
    const auto& node = tree_[parts[biggest]];
    const bool most = 2 * node.cost.num_ops > tree_[base].cost.num_ops;
    if (!most || node.calls != 1 || !has_modules(parts[biggest])) break;
    if (rows - 1 + fold(node.children).size() > kManyRows) break;
    unfold(biggest);
  }
  if (!options_.fold) return parts;
  std::vector<std::size_t> shown;
  for (const auto part : parts) {
    const auto& inner = tree_[part].children;
    const bool one_row = tree_[part].calls == 1 && inner.size() > 1 && has_modules(part) && fold(inner).size() == 1;
    if (one_row) {
      shown.insert(shown.end(), inner.begin(), inner.end());
    } else {
      shown.push_back(part);
    }
  }
  return shown;
}

/// The same operations twice, as an unrolled loop leaves them.
bool SummaryRows::are_alike(std::size_t one, std::size_t other) const {
  const auto& a = tree_[one];
  const auto& b = tree_[other];
  return options_.fold && options_.level != SummaryLevel::kOp && !a.is_module() && !b.is_module() &&
         a.num_loose == b.num_loose && a.names == b.names;
}

/// Runs of neighbours of one class whose addresses count up from one to the next.
std::vector<SummaryRows::Group> SummaryRows::fold(const std::vector<std::size_t>& parts) const {
  std::vector<Group> groups;
  for (const auto part : parts) {
    NumberedAddress address;
    if (options_.fold && tree_[part].is_module()) address = numbered(tree_.address(part));
    if (!groups.empty() && address.number >= 0) {
      auto& group = groups.back();
      const auto front = group.members.front();
      if (group.is_numbered && group.prefix == address.prefix && address.number == group.last + 1 &&
          tree_.class_name(front) == tree_.class_name(part) && tree_[front].calls == tree_[part].calls) {
        group.members.push_back(part);
        group.last = address.number;
        group.folded = std::to_string(group.first) + "-" + std::to_string(group.last);
        continue;
      }
    }
    if (!groups.empty() && are_alike(groups.back().members.front(), part)) {
      groups.back().members.push_back(part);
      continue;
    }
    Group group;
    group.members.push_back(part);
    if (address.number >= 0) {
      group.is_numbered = true;
      group.prefix = address.prefix;
      group.first = group.last = address.number;
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

void SummaryRows::emit(const std::vector<std::size_t>& parts, int depth, std::string_view above) {
  const auto groups = fold(parts);
  const auto limit = options_.max_rows;
  if (limit == 0 || groups.size() <= limit) {
    for (const auto& group : groups) emit_group(group, depth, above);
    return;
  }
  const auto tail = std::min(kTail, limit / 4);
  const auto head = limit - 1 - tail;
  for (std::size_t i = 0; i < head; ++i) emit_group(groups[i], depth, above);
  emit_elided(groups, head, groups.size() - tail, depth);
  for (std::size_t i = groups.size() - tail; i < groups.size(); ++i) emit_group(groups[i], depth, above);
}

void SummaryRows::emit_group(const Group& group, int depth, std::string_view above) {
  const auto deeper = levels() - depth - 1;
  const auto node = group.members.size() == 1 ? group.members.front() : tree_.merge(group.members, deeper);
  rows_.push_back(row_of(node, group, depth, above));
  if (deeper <= 0 || tree_[node].children.empty()) return;
  const auto children = tree_[node].children;
  // A module of nothing but its own operations is said by its row.
  const bool leaf = std::ranges::none_of(children, [&](std::size_t child) { return tree_[child].is_module(); });
  if (leaf && options_.level != SummaryLevel::kOp) return;
  emit(children, depth + 1, tree_.address(node));
}

/// Whether the module that a node stands in has that address and was itself called: not so for a ModuleList.
bool SummaryRows::is_called(const SummaryNode& node, std::string_view address) const {
  const auto& modules = tree_.trace().modules;
  const auto parent = modules.parent[static_cast<std::size_t>(node.modules.front())];
  if (parent < 0) return false;
  const auto row = static_cast<std::size_t>(parent);
  return modules.num_calls[row] > 0 && tree_.trace().strings[modules.address[row]] == address;
}

SummaryRow SummaryRows::row_of(std::size_t node, const Group& group, int depth, std::string_view above) const {
  const auto& trace = tree_.trace();
  const auto& of = tree_[node];
  SummaryRow row;
  row.depth = depth;
  row.calls = of.calls;
  row.output = of.output;
  row.cost = of.cost;
  row.params = of.params;
  if (of.is_module()) {
    row.module = ModuleId{static_cast<std::uint32_t>(of.modules.front())};
    row.modules = static_cast<std::int64_t>(group.members.size());
    row.folded = group.folded;
    const auto full = group.folded.empty() ? tree_.address(node) : without_dot(group.prefix);
    row.name = std::string(!group.folded.empty() && full == above ? std::string_view() : relative(full, above));
    row.numbers_apart = !group.folded.empty() && is_called(of, full);
    row.class_name = std::string(tree_.class_name(node));
    return row;
  }
  if (options_.level == SummaryLevel::kOp && of.layer >= 0) {
    row.kind = SummaryRow::Kind::kLayer;
    row.name = layer_label(trace, LayerId{static_cast<std::uint32_t>(of.layer)});
    row.class_name = std::string(trace.strings[of.names[0]]);
    return row;
  }
  row.kind = SummaryRow::Kind::kLoose;
  for (const auto name : of.distinct) {
    if (name >= 0) row.name += (row.name.empty() ? "" : ", ") + std::string(trace.strings[name]);
  }
  if (of.has_more_names) row.name += ", …";
  row.class_name = std::to_string(of.num_loose) + (of.num_loose == 1 ? " op" : " ops");
  return row;
}

void SummaryRows::emit_elided(const std::vector<Group>& groups, std::size_t begin, std::size_t end, int depth) {
  SummaryRow row;
  row.kind = SummaryRow::Kind::kElided;
  row.depth = depth;
  row.modules = static_cast<std::int64_t>(end - begin);
  row.calls = 0;
  for (std::size_t i = begin; i < end; ++i) {
    for (const auto member : groups[i].members) {
      const auto& node = tree_[member];
      row.calls += node.calls;
      row.cost += node.cost;
      row.params.inclusive.elements = saturating_add(row.params.inclusive.elements, node.params.inclusive.elements);
      row.params.inclusive.bytes = saturating_add(row.params.inclusive.bytes, node.params.inclusive.bytes);
    }
  }
  rows_.push_back(std::move(row));
}

}  // namespace tl

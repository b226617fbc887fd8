#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "diff/arguments.h"
#include "diff/contents_parts.h"
#include "diff/sequence.h"

namespace tl {
namespace {

constexpr std::int64_t kNone = -1;

/// How a value is laid out or kept, not which it is.
bool is_immaterial(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kNames = {"layout",       "device",        "pin_memory",
                                                             "non_blocking", "memory_format", "implicit"};
  return std::ranges::find(kNames, name) != kNames.end();
}

std::vector<std::int64_t> numbers_of(const std::vector<std::string>& sizes) {
  std::vector<std::int64_t> numbers;
  for (const auto& size : sizes) {
    std::int64_t number = 0;
    const auto read = std::from_chars(size.data(), size.data() + size.size(), number);
    if (read.ec != std::errc() || read.ptr != size.data() + size.size()) return {};  // a symbol: no shape is stated
    numbers.push_back(number);
  }
  return numbers;
}

std::string sizes_text(const std::vector<std::string>& sizes) {
  std::string text = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) text += (i ? "," : "") + sizes[i];
  return text + "]";
}

/// The items of a flat list, or the literal itself.
std::vector<std::string_view> items_of(std::string_view literal) {
  const bool list = literal.size() > 2 && literal.front() == '[' && literal.find('[', 1) == std::string_view::npos;
  if (!list || literal.find('"') != std::string_view::npos) return {literal};
  literal = literal.substr(1, literal.size() - 2);
  constexpr std::string_view kSeparator = ", ";
  std::vector<std::string_view> items;
  for (auto at = literal.find(kSeparator); at != std::string_view::npos; at = literal.find(kSeparator)) {
    items.push_back(literal.substr(0, at));
    literal.remove_prefix(at + kSeparator.size());
  }
  items.push_back(literal);
  return items;
}

SiteRef ref_of(const ModelCall& call, std::size_t row) {
  SiteRef ref;
  ref.row = static_cast<std::int64_t>(row);
  ref.label = call.label;
  ref.module = call.module;
  ref.module_class = call.class_name.substr(call.class_name.rfind('.') + 1);
  ref.func_name = call.func_name;
  ref.file = call.file;
  ref.line = call.line;
  ref.dtype = call.dtype;
  ref.sizes = numbers_of(call.sizes);
  return ref;
}

std::uint64_t hash_sizes(const ModelCall& call) { return hash_text(sizes_text(call.sizes)); }

class CallMatcher {
 public:
  CallMatcher(const ModelContents& reference, const ModelContents& subject, const Renamer& rename, DiffReport& report)
      : reference_(reference.calls), subject_(subject.calls), report_(report) {
    subject_of_.assign(reference_.size(), kNone);
    reference_of_.assign(subject_.size(), kNone);
    basis_.assign(reference_.size(), MatchBasis::kSiteKey);
    named_ = rename ? MatchBasis::kMap : MatchBasis::kSiteKey;
    const auto place = [](const ModelCall& call, const std::string& module) {
      return hash_mix(hash_text(module, static_cast<std::uint64_t>(call.module_call)), hash_text(call.target));
    };
    for (const auto& call : reference_) r_keys_.push_back(place(call, rename ? rename(call.module) : call.module));
    for (const auto& call : subject_) s_keys_.push_back(place(call, call.module));
    for (const auto& tensor : reference.tensors) r_digests_.emplace(tensor.name, tensor.digest);
    for (const auto& tensor : subject.tensors) s_digests_.emplace(tensor.name, tensor.digest);
  }

  void run() {
    match_groups();
    match_rest([](const ModelCall& call, std::uint64_t key) { return hash_mix(key, hash_sizes(call)); });
    match_rest([](const ModelCall& call, std::uint64_t) { return hash_mix(hash_text(call.target), hash_sizes(call)); });
    match_rest([](const ModelCall& call, std::uint64_t) { return hash_text(call.target); });
    add_sites();
    add_changes();
    cover();
  }

 private:
  void pair(std::size_t r, std::size_t s, MatchBasis basis) {
    subject_of_[r] = static_cast<std::int64_t>(s);
    reference_of_[s] = static_cast<std::int64_t>(r);
    basis_[r] = basis;
  }

  /// Calls of one operator in one module call, in order, where both have as many.
  void match_groups() {
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> theirs;
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> ours;
    for (std::size_t s = 0; s < subject_.size(); ++s) theirs[s_keys_[s]].push_back(s);
    for (std::size_t r = 0; r < reference_.size(); ++r) ours[r_keys_[r]].push_back(r);
    for (const auto& [key, rows] : ours) {
      const auto found = theirs.find(key);
      if (found == theirs.end() || found->second.size() != rows.size()) continue;
      for (std::size_t i = 0; i < rows.size(); ++i) pair(rows[i], found->second[i], named_);
    }
  }

  template <typename Token>
  void match_rest(const Token& token_of) {
    std::vector<std::size_t> r_rows;
    std::vector<std::size_t> s_rows;
    std::vector<std::uint64_t> r_tokens;
    std::vector<std::uint64_t> s_tokens;
    for (std::size_t r = 0; r < reference_.size(); ++r) {
      if (subject_of_[r] >= 0) continue;
      r_rows.push_back(r);
      r_tokens.push_back(token_of(reference_[r], r_keys_[r]));
    }
    for (std::size_t s = 0; s < subject_.size(); ++s) {
      if (reference_of_[s] >= 0) continue;
      s_rows.push_back(s);
      s_tokens.push_back(token_of(subject_[s], s_keys_[s]));
    }
    if (r_rows.empty() || s_rows.empty()) return;
    for (const auto& [i, j] : align_sequences(r_tokens, s_tokens)) pair(r_rows[i], s_rows[j], MatchBasis::kSequence);
  }

  void add_sites() {
    for (std::size_t s = 0; s < subject_.size(); ++s) {
      if (reference_of_[s] < 0) continue;
      const auto r = static_cast<std::size_t>(reference_of_[s]);
      DiffSite site;
      site.reference = ref_of(reference_[r], r);
      site.subject = ref_of(subject_[s], s);
      site.basis = basis_[r];
      site.arguments = differences(reference_[r], subject_[s]);
      report_.sites.push_back(std::move(site));
    }
  }

  /// Arguments by name; one that only a side writes has the default of the schema on the other, since torch.export
  /// leaves defaults out.
  std::vector<ArgumentDifference> differences(const ModelCall& ours, const ModelCall& theirs) const {
    std::vector<ArgumentDifference> list;
    if (ours.dtype != theirs.dtype) {
      list.push_back({"dtype", std::string(short_name(ours.dtype)), std::string(short_name(theirs.dtype))});
    }
    const auto find = [](const ModelCall& call, const std::string& name) {
      const auto found = std::ranges::find(call.arguments, name, &std::pair<std::string, std::string>::first);
      return found == call.arguments.end() ? nullptr : &found->second;
    };
    for (const auto& [name, literal] : ours.arguments) {
      if (is_immaterial(name)) continue;
      const auto* other = find(theirs, name);
      if (other == nullptr) {
        list.push_back({name, literal, "left to its default"});
      } else if (!same_argument(literal, *other)) {
        list.push_back({name, literal, *other});
      }
    }
    for (const auto& [name, literal] : theirs.arguments) {
      if (!is_immaterial(name) && find(ours, name) == nullptr) list.push_back({name, "left to its default", literal});
    }
    return list;
  }

  bool same_argument(const std::string& ours, const std::string& theirs) const {
    if (ours == theirs) return true;
    const auto a = items_of(ours);
    const auto b = items_of(theirs);
    if (a.size() != b.size() || a.size() == 1) return same_item(ours, theirs);
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!same_item(a[i], b[i])) return false;
    }
    return true;
  }

  /// What only a run knows can be anything; so can a tensor that may be the weight.
  bool same_item(std::string_view ours, std::string_view theirs) const {
    constexpr std::string_view kWeight = "weight ";
    constexpr std::string_view kTensor = "tensor";
    if (ours == theirs || ours == "?" || theirs == "?") return true;
    const bool weights[2] = {ours.starts_with(kWeight), theirs.starts_with(kWeight)};
    if (!weights[0] && !weights[1]) return same_literal(ours, theirs);
    if (!weights[0] || !weights[1]) return (weights[0] ? theirs : ours) == kTensor;
    const auto a = r_digests_.find(ours.substr(kWeight.size()));
    const auto b = s_digests_.find(theirs.substr(kWeight.size()));
    const bool known = a != r_digests_.end() && b != s_digests_.end() && !a->second.empty() && !b->second.empty();
    return !known || a->second == b->second;
  }

  /// Unmatched calls that stand in a row are one change, put where the next matched call is.
  void add_changes() {
    std::size_t site = 0;
    std::vector<std::int64_t> site_of_reference(reference_.size(), kNone);
    for (const auto& each : report_.sites) {
      site_of_reference[static_cast<std::size_t>(each.reference.row)] = static_cast<std::int64_t>(site++);
    }
    std::size_t next_site = 0;
    for (std::size_t s = 0; s < subject_.size(); ++s) {
      if (reference_of_[s] >= 0) {
        ++next_site;
        continue;
      }
      const bool open = s > 0 && reference_of_[s - 1] < 0 && !report_.changes.empty();
      if (!open) report_.changes.push_back({ChangeKind::kInserted, {}, {}, site_at(next_site)});
      report_.changes.back().subject.push_back(ref_of(subject_[s], s));
    }
    for (std::size_t r = 0; r < reference_.size(); ++r) {
      if (subject_of_[r] >= 0) continue;
      if (r == 0 || subject_of_[r - 1] >= 0) add_removed(site_after(r, site_of_reference));
      removed_->reference.push_back(ref_of(reference_[r], r));
    }
    for (auto& change : removed_changes_) report_.changes.push_back(std::move(change));
    merge_changes();
  }

  std::int64_t site_at(std::size_t site) const {
    return site < report_.sites.size() ? static_cast<std::int64_t>(site) : kNone;
  }

  std::int64_t site_after(std::size_t r, const std::vector<std::int64_t>& site_of_reference) const {
    while (r < reference_.size() && site_of_reference[r] < 0) ++r;
    return r < reference_.size() ? site_of_reference[r] : kNone;
  }

  void add_removed(std::int64_t site) {
    removed_changes_.push_back({ChangeKind::kRemoved, {}, {}, site});
    removed_ = &removed_changes_.back();
  }

  /// What was taken out and put in before the same call is one thing written otherwise.
  void merge_changes() {
    std::unordered_map<std::int64_t, std::size_t> inserted;
    std::vector<DiffChange> merged;
    for (auto& change : report_.changes) {
      if (change.kind == ChangeKind::kInserted) {
        inserted.emplace(change.site, merged.size());
        merged.push_back(std::move(change));
        continue;
      }
      const auto found = inserted.find(change.site);
      if (found == inserted.end()) {
        merged.push_back(std::move(change));
        continue;
      }
      auto& into = merged[found->second];
      into.reference = std::move(change.reference);
      into.kind = into.reference.size() > 1 && into.subject.size() == 1   ? ChangeKind::kFused
                  : into.reference.size() == 1 && into.subject.size() > 1 ? ChangeKind::kSplit
                                                                          : ChangeKind::kRewritten;
      inserted.erase(found);
    }
    report_.changes = std::move(merged);
  }

  void cover() {
    auto& coverage = report_.coverage;
    coverage.unit = "calls";
    for (const auto& site : report_.sites) {
      ++coverage.matched;
      ++coverage.by_basis[static_cast<std::size_t>(site.basis)];
      ++coverage.by_evidence[static_cast<std::size_t>(site.evidence)];
    }
    coverage.total = static_cast<std::int64_t>(reference_.size() + subject_.size()) - coverage.matched;
  }

  const std::vector<ModelCall>& reference_;
  const std::vector<ModelCall>& subject_;
  DiffReport& report_;
  MatchBasis named_ = MatchBasis::kSiteKey;
  std::vector<std::uint64_t> r_keys_;
  std::vector<std::uint64_t> s_keys_;
  std::vector<std::int64_t> subject_of_;
  std::vector<std::int64_t> reference_of_;
  std::vector<MatchBasis> basis_;
  std::unordered_map<std::string_view, std::string_view> r_digests_;
  std::unordered_map<std::string_view, std::string_view> s_digests_;
  std::vector<DiffChange> removed_changes_;
  DiffChange* removed_ = nullptr;
};

}  // namespace

void compare_calls(const ModelContents& reference, const ModelContents& subject, const Renamer& rename,
                   DiffReport& report) {
  CallMatcher(reference, subject, rename, report).run();
}

bool is_neutral_call(const SiteRef& call) {
  if (call.dtype == DType::kNone) return true;  // sizes, checks: no tensor comes of it
  auto type = call.func_name;
  std::erase(type, '_');
  return is_neutral_type(type) || type == "invokesubgraph";  // whose calls stand for themselves
}

}  // namespace tl

#include "select/glob.h"

#include <cstddef>
#include <optional>

namespace tl {
namespace {

/// A set at pattern[at] == '[': whether `c` is in it, and where the pattern goes on. nullopt if the set does not end:
/// then the bracket stands for itself.
struct InSet {
  bool found;
  std::size_t next;
};
std::optional<InSet> match_set(std::string_view pattern, std::size_t at, char c) {
  auto i = at + 1;
  const bool negated = i < pattern.size() && pattern[i] == '!';
  if (negated) ++i;
  bool found = false;
  for (const auto first = i; i < pattern.size(); ++i) {
    if (pattern[i] == ']' && i > first) return InSet{found != negated, i + 1};
    const auto low = static_cast<unsigned char>(pattern[i]);
    auto high = low;
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      high = static_cast<unsigned char>(pattern[i + 2]);
      i += 2;
    }
    const auto byte = static_cast<unsigned char>(c);
    found = found || (low <= byte && byte <= high);
  }
  return std::nullopt;
}

/// Where the pattern goes on if its piece at `at`, which is no star, takes `c`.
std::optional<std::size_t> take_one(std::string_view pattern, std::size_t at, char c) {
  if (pattern[at] == '?') return at + 1;
  if (pattern[at] == '[') {
    if (const auto set = match_set(pattern, at, c)) return set->found ? std::optional(set->next) : std::nullopt;
  }
  return pattern[at] == c ? std::optional(at + 1) : std::nullopt;
}

}  // namespace

bool is_glob(std::string_view pattern) { return pattern.find_first_of("*?[") != std::string_view::npos; }

bool glob_matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::optional<std::size_t> star;  // the piece after the last star
  std::size_t resume = 0;           // what that star has taken ends here
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      resume = t;
      continue;
    }
    if (const auto next = p < pattern.size() ? take_one(pattern, p, text[t]) : std::nullopt) {
      p = *next;
      ++t;
      continue;
    }
    if (!star) return false;
    p = *star;
    t = ++resume;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace tl

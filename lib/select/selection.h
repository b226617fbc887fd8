#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.h"
#include "select/fields.h"
#include "select/selector.h"
#include "trace/trace.h"

namespace tl {

/// A resolved place: an Op, and the term of the selector that took it in.
struct Site {
  static constexpr std::uint16_t kNoTerm = 0xffff;  ///< it is there because nothing left it out: ~func("relu")

  OpId op;
  std::uint16_t term = kNoTerm;  ///< into Selection::terms

  friend bool operator==(const Site&, const Site&) = default;
};

/// The ordered result of resolving a Selector against one Trace. Belongs to that trace: keep the selector, not this.
struct Selection {
  std::string selector;            ///< canonical text
  std::vector<std::string> terms;  ///< canonical texts of the terms, in their order
  std::vector<Site> sites;         ///< in capture order, each Op once

  /// The label that names a site (relu_1_2:3).
  static std::string key(const Trace& trace, const Site& site);
  /// The term that took a site in; empty if none did.
  std::string_view provenance(const Site& site) const {
    return site.term < terms.size() ? std::string_view(terms[site.term]) : std::string_view();
  }
};

/// What to do about a selector that matches nothing.
enum class NoMatch : std::uint8_t {
  kRefuse,  ///< an error with the nearest candidates
  kAllow,   ///< an empty result; keys that no record has match nothing
};

/// Canonical texts of the terms of a selector, in their order: what Site::term and SelectedRow::term index.
std::vector<std::string> term_texts(const Selector& selector);

/// Resolves a selector against a finished trace. Throws Error: kSiteNotFound where nothing matches (kRefuse); for keys
/// and labels kLookupNotFound, kAmbiguousOpLookup, kPassOutOfRange, and kMultipassBareLabel for label("relu_1_2") of a
/// Layer with several passes; kUnknownField and kSelectorSyntax for expressions and patterns. Linear in Ops and edges
/// for each term.
Selection resolve(const Selector& selector, const Trace& trace, NoMatch no_match = NoMatch::kRefuse);

/// A row of any table that a selector took in.
struct SelectedRow {
  std::uint32_t row;
  std::uint16_t term;
};

/// The same for the rows of a table, in their order. `where` sees the fields of that table; module and in_module mean
/// the row's own module where it has one; every other term holds for a row if it holds for one of its Ops.
std::vector<SelectedRow> select_rows(const Selector& selector, const FieldContext& context, TableId table,
                                     NoMatch no_match = NoMatch::kRefuse);

}  // namespace tl

#include "archive/torchscript_scan.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_set>
#include <utility>

#include "archive/entry_name.h"
#include "archive/limits.h"
#include "archive/pickle_scanner.h"
#include "archive/script_lexer.h"
#include "archive/unpickler.h"
#include "archive/zip_directory.h"
#include "core/error.h"

namespace tl {
namespace {

using UseMap = std::map<std::string, ScriptUse, std::less<>>;

constexpr std::string_view kClassPrefix = "__torch__.torch.classes.";

struct Uses {
  UseMap operators;
  UseMap classes;
  UseMap members;
  bool has_setstate = false;
};

struct Place {
  std::string_view file;
  std::uint32_t line = 0;
  std::string_view function = {};
  bool in_setstate = false;
};

void record(UseMap& uses, std::string name, const Place& place) {
  const auto [slot, fresh] = uses.try_emplace(std::move(name));
  ScriptUse& use = slot->second;
  if (fresh || (place.in_setstate && !use.in_setstate)) {
    use = {slot->first, std::string(place.file), place.line, use.count, std::string(place.function), place.in_setstate};
  }
  ++use.count;
}

/// The Python module that a source stands for: `code/__torch__/a/b.py` holds what is named `__torch__.a.b.…`.
std::string module_of(std::string_view file) {
  constexpr std::string_view kFolder = "code/";
  constexpr std::string_view kExtension = ".py";
  if (file.size() < kFolder.size() + kExtension.size()) return {};
  std::string name(file.substr(kFolder.size(), file.size() - kFolder.size() - kExtension.size()));
  std::ranges::replace(name, '/', '.');
  return name;
}

bool is_operator_word(std::string_view word) {
  static constexpr std::array<std::string_view, 9> kWords = {"and", "or", "not", "if",    "else",
                                                             "in",  "is", "for", "lambda"};
  return std::ranges::find(kWords, word) != kWords.end();
}

/// Bounds what LibTorch's parser and compiler recurse over: brackets, operators in a row, indentation, elif arms.
class NestingGuard {
 public:
  explicit NestingGuard(const ScriptLexer& lexer) : lexer_(lexer) {}

  void line_start(const ScriptToken& first) {
    while (!levels_.empty() && levels_.back().indent > first.indent) {
      arms_ -= levels_.back().arms;
      levels_.pop_back();
    }
    if (levels_.empty() || levels_.back().indent < first.indent) levels_.push_back({first.indent, 0});
    Level& level = levels_.back();
    if (first.text == "elif") {
      ++level.arms;
      ++arms_;
    } else if (first.text != "else") {
      arms_ -= level.arms;
      level.arms = 0;
    }
    if (levels_.size() > limits::kScriptIndentDepth)
      limit(levels_.size(), "indentation levels", limits::kScriptIndentDepth);
    if (arms_ > limits::kScriptElifArms) limit(arms_, "elif arms", limits::kScriptElifArms);
  }

  void open() {
    link();
    chains_.push_back(0);
    if (chains_.size() - 1 > limits::kScriptBracketDepth) {
      limit(chains_.size() - 1, "open brackets", limits::kScriptBracketDepth);
    }
  }

  void close() {
    if (chains_.size() < 2)
      throw Error(ErrorCode::kFileDamaged, lexer_.place() + ": a closing bracket without an open one");
    cut();
    chains_.pop_back();
  }

  void link() {
    ++chains_.back();
    if (++total_ > limits::kScriptChainLength) limit(total_, "operators in a row", limits::kScriptChainLength);
  }

  /// A comma, an assignment or the end of a line: what follows is not nested in what came before.
  void cut() {
    total_ -= chains_.back();
    chains_.back() = 0;
  }

  void end() const {
    if (chains_.size() > 1) throw Error(ErrorCode::kFileDamaged, lexer_.place() + ": a bracket is not closed");
  }

 private:
  struct Level {
    std::uint32_t indent = 0;
    std::size_t arms = 0;
  };

  [[noreturn]] void limit(std::size_t count, std::string_view what, std::size_t most) const {
    throw Error(ErrorCode::kFileLimits, lexer_.place() + ": " + std::to_string(count) + " " + std::string(what) +
                                            ", the limit is " + std::to_string(most));
  }

  const ScriptLexer& lexer_;
  std::vector<Level> levels_;
  std::size_t arms_ = 0;
  std::vector<std::size_t> chains_ = {0};
  std::size_t total_ = 0;
};

/// Scans one source.
class SourceScanner {
 public:
  /// `shown` is the file in messages, `file` in results.
  SourceScanner(std::string_view source, std::string_view file, std::string_view shown, Uses& uses,
                ScriptClasses* classes)
      : lexer_(source, shown),
        guard_(lexer_),
        outline_(module_of(file), classes),
        file_(file),
        shown_(shown),
        uses_(uses) {}

  void scan() {
    for (bool fresh_line = true;;) {
      const ScriptToken token = lexer_.next();
      const bool first = fresh_line && token.kind != ScriptTokenKind::kNewline && token.kind != ScriptTokenKind::kEnd;
      if (first) guard_.line_start(token);
      fresh_line = token.kind == ScriptTokenKind::kNewline;
      check_getattr(token);
      follow_chain(token);
      measure(token);
      outline_.take(token, first);
      uses_.has_setstate |= outline_.in_setstate();
      if (token.kind == ScriptTokenKind::kEnd) break;
      before_ = previous_;
      previous_ = token;
    }
    guard_.end();
  }

 private:
  [[noreturn]] void hostile(std::uint32_t line, const std::string& what) const {
    throw Error(ErrorCode::kFileHostile, std::string(shown_) + ":" + std::to_string(line) + ": " + what);
  }

  Place place(std::uint32_t line) const { return {file_, line, outline_.where(), outline_.in_setstate()}; }

  bool previous_ends_value() const {
    return (previous_.kind == ScriptTokenKind::kIdentifier && !is_operator_word(previous_.text) &&
            previous_.text != "return") ||
           previous_.kind == ScriptTokenKind::kClose || previous_.kind == ScriptTokenKind::kNumber ||
           previous_.kind == ScriptTokenKind::kString;
  }

  void measure(const ScriptToken& token) {
    switch (token.kind) {
      case ScriptTokenKind::kOpen:
        getattrs_.push_back(previous_.kind == ScriptTokenKind::kIdentifier && previous_.text == "getattr" &&
                                    before_.kind != ScriptTokenKind::kDot
                                ? GetattrState::kObject
                                : GetattrState::kNone);
        return guard_.open();
      case ScriptTokenKind::kClose:
        guard_.close();
        getattrs_.pop_back();
        return;
      case ScriptTokenKind::kOperator:
        return guard_.link();
      case ScriptTokenKind::kDot:
        return guard_.link();
      case ScriptTokenKind::kIdentifier:
        if (is_operator_word(token.text)) guard_.link();
        return;
      case ScriptTokenKind::kPunctuation:
      case ScriptTokenKind::kNewline:
        return guard_.cut();
      default:
        return;
    }
  }

  // getattr(value, "name") is value.name; the name must be one plain literal.
  void check_getattr(const ScriptToken& token) {
    if (getattrs_.empty()) return;
    GetattrState& state = getattrs_.back();
    switch (state) {
      case GetattrState::kNone:
        return;
      case GetattrState::kObject:
        if (token.text == ",") state = GetattrState::kName;
        return;
      case GetattrState::kName:
        if (token.kind != ScriptTokenKind::kString) hostile(token.line, "getattr with a computed name");
        record(uses_.members, script_string_value(token.text), place(token.line));
        state = GetattrState::kEnd;
        return;
      case GetattrState::kEnd:
        if (token.text != "," && token.text != ")") hostile(token.line, "getattr with a computed name");
        state = GetattrState::kNone;
        return;
    }
  }

  // Collects dotted names that start with torch, ops or __torch__; all other names after a dot are members.
  void follow_chain(const ScriptToken& token) {
    if (token.kind == ScriptTokenKind::kIdentifier) {
      const bool after_dot = previous_.kind == ScriptTokenKind::kDot;
      if (after_dot && !chain_.empty()) {
        chain_.push_back(token.text);
        return;
      }
      if (after_dot) return record(uses_.members, std::string(token.text), place(token.line));
      finish_chain(token);
      if (previous_.text == "^" && !(before_ends_value_)) {
        record(uses_.operators, "^" + std::string(token.text), place(token.line));
      }
      const bool declared = previous_.text == "def" || previous_.text == "class";
      if (!declared && (token.text == "torch" || token.text == "ops" || token.text == "__torch__")) {
        chain_ = {token.text};
        chain_line_ = token.line;
      }
      return;
    }
    if (token.kind == ScriptTokenKind::kOperator) before_ends_value_ = previous_ends_value();
    if (token.kind != ScriptTokenKind::kDot || previous_.kind == ScriptTokenKind::kDot) finish_chain(token);
  }

  void finish_chain(const ScriptToken& next) {
    if (chain_.empty()) return;
    const std::vector<std::string_view> chain = std::exchange(chain_, {});
    // `ops : List[Tensor]` declares an attribute, `f(ops=x)` names an argument: neither uses the module.
    if (chain.size() == 1 && (next.text == ":" || next.text == "=")) return;
    if (chain[0] == "__torch__") return finish_class(chain);
    std::size_t at = 1;
    std::string space = "aten";
    if (chain[0] == "ops") {
      if (chain.size() < 2) hostile(chain_line_, "`ops` is used as a value");
      space = chain[at++];
    }
    // LibTorch reads an attribute autograd of any such module as the module of aten.
    while (at < chain.size() && chain[at] == "autograd") {
      space = "aten";
      ++at;
    }
    if (at >= chain.size()) hostile(chain_line_, "a namespace of operators is used as a value");
    record(uses_.operators, space + "::" + std::string(chain[at]), place(chain_line_));
    for (++at; at < chain.size(); ++at) record(uses_.members, std::string(chain[at]), place(chain_line_));
  }

  void finish_class(const std::vector<std::string_view>& chain) {
    constexpr std::size_t kClassParts = 5;  // __torch__.torch.classes.ns.Class
    const bool in_torch = chain.size() < 2 || chain[1] == "torch";
    const bool in_classes = chain.size() < 3 || chain[2] == "classes";
    if (!in_torch || !in_classes) {
      // A type or function of the file itself: its name may still be that of a member.
      return record(uses_.members, std::string(chain.back()), place(chain_line_));
    }
    if (chain.size() < kClassParts) hostile(chain_line_, "a namespace of classes is used as a value");
    record(uses_.classes, std::string(kClassPrefix) + std::string(chain[3]) + '.' + std::string(chain[4]),
           place(chain_line_));
    for (std::size_t i = kClassParts; i < chain.size(); ++i) {
      record(uses_.members, std::string(chain[i]), place(chain_line_));
    }
  }

  enum class GetattrState { kNone, kObject, kName, kEnd };

  ScriptLexer lexer_;
  NestingGuard guard_;
  ScriptOutline outline_;
  std::string_view file_;
  std::string_view shown_;
  Uses& uses_;
  std::vector<std::string_view> chain_;
  std::uint32_t chain_line_ = 0;
  std::vector<GetattrState> getattrs_;
  ScriptToken previous_{ScriptTokenKind::kNewline, {}, 1, 0};
  ScriptToken before_{ScriptTokenKind::kNewline, {}, 1, 0};
  bool before_ends_value_ = false;
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::vector<ScriptUse> values(UseMap& uses) {
  std::vector<ScriptUse> list;
  list.reserve(uses.size());
  for (auto& [name, use] : uses) list.push_back(std::move(use));
  return list;
}

TorchScriptScan to_scan(Uses& uses) {
  return {values(uses.operators), values(uses.classes), values(uses.members), 0, 0, uses.has_setstate};
}

void scan_pickle_classes(const ZipDirectory& zip, const ZipEntry& entry, std::string_view file, Uses& uses) {
  if (entry.size == 0) return;
  const std::vector<std::byte> bytes = zip.read(entry);
  for (const std::string& global : scan_pickle(bytes, zip.file_name() + ": " + entry.name).globals) {
    if (global.starts_with(kClassPrefix)) record(uses.classes, global, {file});
  }
}

}  // namespace

TorchScriptScan scan_torchscript_source(std::string_view source, std::string_view file, ScriptClasses* classes) {
  Uses uses;
  SourceScanner(source, file, file, uses, classes).scan();
  TorchScriptScan scan = to_scan(uses);
  scan.source_files = 1;
  scan.source_bytes = source.size();
  return scan;
}

TorchScriptScan scan_torchscript(const ZipDirectory& zip, ScriptClasses* classes) {
  Uses uses;
  std::size_t files = 0;
  std::uint64_t total = 0;
  const std::string root = lower(archive_root(zip));
  std::unordered_set<std::string> names;
  for (const ZipEntry& entry : zip.entries()) {
    const std::string name = lower(entry.name);
    if (!names.insert(name).second) {
      throw Error(ErrorCode::kFileHostile, zip.file_name() + ": entry " + quoted_name(entry.name) +
                                               " differs from another one in case only, which LibTorch ignores");
    }
    if (!name.starts_with(root)) continue;
    const std::string_view file = std::string_view(entry.name).substr(root.size());
    const std::string_view plain = std::string_view(name).substr(root.size());
    if (plain == "data.pkl" || plain == "constants.pkl") scan_pickle_classes(zip, entry, file, uses);
    if (!plain.starts_with("code/") || !plain.ends_with(".py")) continue;
    total += entry.size;
    if (entry.size > limits::kScriptSourceBytes || total > limits::kScriptTotalBytes) {
      throw Error(ErrorCode::kFileLimits, zip.file_name() + ": " + quoted_name(entry.name) + " brings the source to " +
                                              std::to_string(total) + " bytes, the limits are " +
                                              std::to_string(limits::kScriptSourceBytes) + " a file and " +
                                              std::to_string(limits::kScriptTotalBytes) + " in all");
    }
    const std::string source = zip.read_text(entry);
    SourceScanner(source, file, zip.file_name() + ": " + std::string(file), uses, classes).scan();
    ++files;
  }
  TorchScriptScan scan = to_scan(uses);
  scan.source_files = files;
  scan.source_bytes = static_cast<std::size_t>(total);
  return scan;
}

bool is_unsafe_operator(std::string_view qualified_name) {
  if (qualified_name.starts_with('^')) return true;
  static constexpr std::array<std::string_view, 10> kNames = {
      "aten::dist_backward",      // remote autograd
      "aten::from_file",          // maps a file
      "aten::save",               // writes a file
      "aten::to_here",            // fetches from another process
      "debugprims::load_tensor",  // reads a file
      "prim::IgnoredPythonOp",    // Python
      "prim::PythonOp",           // Python
      "prim::rpc_async",          // runs on another process
      "prim::rpc_remote",         // runs on another process
      "prim::rpc_sync",           // runs on another process
  };
  // Whole namespaces: other processes; then operators that hand out memory unchecked, which only generated code calls.
  static constexpr std::array<std::string_view, 9> kNamespaces = {
      "rpc::",      "dist::",     "c10d::",     "_c10d_functional::", "_c10d_functional_autograd::",
      "_dtensor::", "symm_mem::", "inductor::", "static_runtime::"};
  return std::ranges::find(kNames, qualified_name) != kNames.end() ||
         std::ranges::any_of(kNamespaces, [&](std::string_view space) { return qualified_name.starts_with(space); });
}

bool is_unsafe_class(std::string_view class_name) {
  if (!class_name.starts_with(kClassPrefix)) return false;
  class_name.remove_prefix(kClassPrefix.size());
  static constexpr std::array<std::string_view, 5> kNamespaces = {"c10d.", "dist_c10d.", "dist_rpc.", "rpc.",
                                                                  "_nnapi."};
  return std::ranges::any_of(kNamespaces, [&](std::string_view space) { return class_name.starts_with(space); });
}

std::vector<ScriptUse> unsafe_uses(const TorchScriptScan& scan) {
  std::vector<ScriptUse> unsafe;
  for (const ScriptUse& use : scan.operators) {
    if (is_unsafe_operator(use.name)) unsafe.push_back(use);
  }
  for (const ScriptUse& use : scan.classes) {
    if (is_unsafe_class(use.name)) unsafe.push_back(use);
  }
  // The only unsafe operators that can be called as methods; tried against LibTorch 2.13.
  static constexpr std::array<std::string_view, 1> kMethods = {"to_here"};
  for (const ScriptUse& use : scan.members) {
    if (std::ranges::find(kMethods, use.name) == kMethods.end()) continue;
    unsafe.push_back(use);
    unsafe.back().name = "aten::" + use.name;
  }
  return unsafe;
}

}  // namespace tl

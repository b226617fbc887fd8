#include "archive/pickle_scanner.h"

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "archive/limits.h"
#include "archive/pickle_lexer.h"
#include "core/error.h"

namespace tl {
namespace {

constexpr int kMaxProtocol = 5;
// A memoised string can be used many times at two bytes a use; without a bound, copying it would be quadratic.
constexpr std::size_t kMaxGlobalBytes = 4096;

/// Follows strings from where they are pushed to STACK_GLOBAL, through the memo, without a full stack: module and name
/// are the last two pushes before it in every pickle that a pickler wrote. Everything else is reported as unknown.
class Scanner {
 public:
  Scanner(std::span<const std::byte> pickle, std::string_view where) : lexer_(pickle, where) {}

  PickleScan scan() {
    PickleOp op;
    while (lexer_.next(op)) step(op);
    scan_.bytes = lexer_.position();
    return std::move(scan_);
  }

 private:
  void step(const PickleOp& op) {
    switch (op.code) {
      case PickleCode::kProto:
        scan_.protocol = static_cast<int>(op.integer);
        if (scan_.protocol > kMaxProtocol) lexer_.damaged(op.offset, "protocol " + std::to_string(scan_.protocol));
        return;
      case PickleCode::kGlobal:
      case PickleCode::kInst:
        add_global(op.text, op.name);
        return push(std::nullopt);
      case PickleCode::kStackGlobal:
        add_global(before_, last_);
        return push(std::nullopt);
      case PickleCode::kExt1:
      case PickleCode::kExt2:
      case PickleCode::kExt4:
        scan_.has_extensions = true;
        return push(std::nullopt);
      case PickleCode::kBinUnicode:
      case PickleCode::kShortBinUnicode:
      case PickleCode::kBinUnicode8:
      case PickleCode::kBinString:
      case PickleCode::kShortBinString:
        return push(op.text);
      case PickleCode::kMemoize:
        return remember(memo_count_);
      case PickleCode::kBinPut:
      case PickleCode::kLongBinPut:
        return remember(static_cast<std::uint64_t>(op.integer));
      case PickleCode::kPut:
        ++memo_count_;
        return;
      case PickleCode::kBinGet:
      case PickleCode::kLongBinGet: {
        const auto found = memo_.find(static_cast<std::uint64_t>(op.integer));
        return push(found == memo_.end() ? std::nullopt : std::optional(found->second));
      }
      case PickleCode::kFrame:
        return;
      default:
        return push(std::nullopt);
    }
  }

  void push(std::optional<std::string_view> text) {
    before_ = last_;
    last_ = text;
  }

  void remember(std::uint64_t index) {
    ++memo_count_;
    if (last_) {
      memo_[index] = *last_;
    } else {
      memo_.erase(index);
    }
  }

  void add_global(std::optional<std::string_view> module, std::optional<std::string_view> name) {
    const bool known = module && name && module->size() + name->size() <= kMaxGlobalBytes;
    add(known ? std::string(*module) + '.' + std::string(*name) : std::string("?"));
  }

  void add(std::string global) {
    if (seen_.insert(global).second) scan_.globals.push_back(std::move(global));
  }

  PickleLexer lexer_;
  PickleScan scan_;
  std::optional<std::string_view> before_;
  std::optional<std::string_view> last_;
  std::unordered_map<std::uint64_t, std::string_view> memo_;
  std::uint64_t memo_count_ = 0;
  std::unordered_set<std::string> seen_;
};

}  // namespace

PickleScan scan_pickle(std::span<const std::byte> pickle, std::string_view where) {
  return Scanner(pickle, where).scan();
}

}  // namespace tl

#include "archive/unpickler.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "archive/byte_reader.h"
#include "archive/entry_name.h"
#include "archive/limits.h"
#include "archive/pickle_lexer.h"
#include "archive/pickle_tree.h"
#include "archive/torch_rebuild.h"
#include "archive/zip_directory.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "core/text.h"

namespace tl {
namespace {

// Two's complement, little-endian, as pickled by LONG1 and LONG4.
PickleValue long_value(std::string_view bytes) {
  const bool negative = !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80) != 0;
  if (bytes.size() <= 8) {
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return {static_cast<std::int64_t>(value)};
  }
  // Magnitude in base 256, then repeated division by 10^9. Quadratic, hence the bound on its length in the caller.
  std::vector<std::uint32_t> magnitude(bytes.size());
  std::uint32_t carry = negative ? 1 : 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const std::uint32_t digit = (negative ? 0xffU - byte : byte) + carry;
    magnitude[i] = digit & 0xff;
    carry = digit >> 8;
  }
  std::string digits;
  while (!magnitude.empty()) {
    std::uint64_t rest = 0;
    for (std::size_t i = magnitude.size(); i-- > 0;) {
      rest = rest << 8 | magnitude[i];
      magnitude[i] = static_cast<std::uint32_t>(rest / 10);
      rest %= 10;
    }
    digits.push_back(static_cast<char>('0' + rest));
    while (!magnitude.empty() && magnitude.back() == 0) magnitude.pop_back();
  }
  if (negative) digits.push_back('-');
  std::ranges::reverse(digits);
  return {PickleBigInt{digits}};
}

constexpr std::size_t kMaxLongBytes = 1'024;
/// Picklers number memo entries from 0 without gaps. LibTorch allocates up to an entry's number, so that eight bytes
/// can ask for gigabytes.
constexpr std::size_t kMaxMemoGap = 65'536;
constexpr std::size_t kMaxPathParts = 16;
constexpr std::size_t kMaxPathBytes = 64;  // of a part

class Unpickler {
 public:
  Unpickler(std::span<const std::byte> pickle, const std::string& where, TorchRebuilder& rebuilder)
      : lexer_(pickle, where), where_(where), rebuilder_(rebuilder) {
    rebuilder_.set_place([this] { return path(); });
  }

  PickleValue run() {
    PickleOp op;
    while (lexer_.next(op)) {
      offset_ = op.offset;
      if (op.code == PickleCode::kStop) break;
      if (!push_scalar(op) && !build_container(op) && !use_memo(op)) apply(op);
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("the stack holds " + std::to_string(stack_.size()) + " values");
    PickleValue root = pop();
    rebuilder_.set_place({});
    memo_.clear();
    containers_.keep(check_pickle_tree(root, rebuilder_, where_));
    return root;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { lexer_.damaged(offset_, what); }

  void push(PickleValue value) {
    if (++values_ > limits::kPickleValues) {
      throw Error(ErrorCode::kFileLimits,
                  where_ + ": the pickle holds more than " + std::to_string(limits::kPickleValues) + " values");
    }
    stack_.push_back(std::move(value));
  }

  PickleValue& top() {
    if (stack_.size() <= floor()) fail("a value is missing on the stack");
    return stack_.back();
  }

  PickleValue pop() {
    PickleValue value = std::move(top());
    stack_.pop_back();
    return value;
  }

  // The values below the last mark are out of reach until it is taken.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  std::vector<PickleValue> pop_to_mark() {
    if (marks_.empty()) fail("a mark is missing on the stack");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleValue> items(std::make_move_iterator(first), std::make_move_iterator(stack_.end()));
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }

  static std::shared_ptr<const std::string> text(const PickleOp& op) {
    return std::make_shared<const std::string>(op.text);
  }

  bool push_scalar(const PickleOp& op) {
    switch (op.code) {
      case PickleCode::kNone:
        push({});
        return true;
      case PickleCode::kNewTrue:
        push({true});
        return true;
      case PickleCode::kNewFalse:
        push({false});
        return true;
      case PickleCode::kBinInt:
      case PickleCode::kBinInt1:
      case PickleCode::kBinInt2:
        push({op.integer});
        return true;
      case PickleCode::kLong1:
      case PickleCode::kLong4:
        if (op.text.size() > kMaxLongBytes) fail("an integer of " + std::to_string(op.text.size()) + " bytes");
        push(long_value(op.text));
        return true;
      case PickleCode::kBinFloat:
        push({op.real});
        return true;
      case PickleCode::kBinUnicode:
      case PickleCode::kShortBinUnicode:
      case PickleCode::kBinUnicode8:
      case PickleCode::kBinString:
      case PickleCode::kShortBinString:
        push({text(op)});
        return true;
      case PickleCode::kBinBytes:
      case PickleCode::kShortBinBytes:
      case PickleCode::kBinBytes8:
      case PickleCode::kByteArray8:
        push({PickleBytes{text(op)}});
        return true;
      default:
        return false;
    }
  }

  bool build_container(const PickleOp& op) {
    switch (op.code) {
      case PickleCode::kMark:
        if (marks_.size() > 4 * limits::kPickleDepth) fail(std::to_string(marks_.size()) + " open marks");
        marks_.push_back(stack_.size());
        return true;
      case PickleCode::kEmptyTuple:
        push_sequence({}, true);
        return true;
      case PickleCode::kEmptyList:
        push_sequence({}, false);
        return true;
      case PickleCode::kTuple:
        push_sequence(pop_to_mark(), true);
        return true;
      case PickleCode::kList:
        push_sequence(pop_to_mark(), false);
        return true;
      case PickleCode::kTuple1:
      case PickleCode::kTuple2:
      case PickleCode::kTuple3: {
        const std::size_t count = static_cast<std::size_t>(op.code) - static_cast<std::size_t>(PickleCode::kTuple1) + 1;
        std::vector<PickleValue> items(count);
        for (std::size_t i = count; i-- > 0;) items[i] = pop();
        push_sequence(std::move(items), true);
        return true;
      }
      case PickleCode::kEmptyDict:
        push({containers_.dict(false)});
        return true;
      case PickleCode::kDict: {
        std::vector<PickleValue> items = pop_to_mark();
        push({containers_.dict(false)});
        set_items(std::move(items));
        return true;
      }
      case PickleCode::kAppend: {
        std::vector<PickleValue> items(1);
        items[0] = pop();
        append(std::move(items));
        return true;
      }
      case PickleCode::kAppends:
        append(pop_to_mark());
        return true;
      case PickleCode::kSetItem: {
        std::vector<PickleValue> items(2);
        items[1] = pop();
        items[0] = pop();
        set_items(std::move(items));
        return true;
      }
      case PickleCode::kSetItems:
        set_items(pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  // Where in the dicts under construction the unpickler is: `layer1.0.weight`.
  std::string path() const {
    std::string text;
    std::size_t parts = 0;
    for (std::size_t i = 0; i < marks_.size() && parts < kMaxPathParts; ++i) {
      const std::size_t end = i + 1 < marks_.size() ? marks_[i + 1] : stack_.size();
      // Keys and values alternate behind a dict's mark; the last key is the one whose value is being made.
      std::size_t key = end;
      for (std::size_t at = marks_[i]; at < end; at += 2) {
        if (stack_[at].string()) key = at;
      }
      if (key == end) continue;
      const std::string_view name = std::string_view(*stack_[key].string()).substr(0, kMaxPathBytes);
      text += (text.empty() ? "" : ".") + elide(escape_for_terminal(name), kMaxPathBytes);
      ++parts;
    }
    return text;
  }

  bool use_memo(const PickleOp& op) {
    switch (op.code) {
      case PickleCode::kBinPut:
      case PickleCode::kLongBinPut:
        if (static_cast<std::uint64_t>(op.integer) > memo_.size() + kMaxMemoGap) {
          throw Error(ErrorCode::kFileHostile, where_ + ": pickle: memo entry " + std::to_string(op.integer) +
                                                   " at byte " + std::to_string(op.offset) + " where " +
                                                   std::to_string(memo_.size()) + " are in use");
        }
        memo_[op.integer] = top();
        return true;
      case PickleCode::kMemoize:
        memo_[static_cast<std::int64_t>(memo_.size())] = top();
        return true;
      case PickleCode::kBinGet:
      case PickleCode::kLongBinGet: {
        const auto found = memo_.find(op.integer);
        if (found == memo_.end()) fail("memo entry " + std::to_string(op.integer) + " is not set");
        push(found->second);
        return true;
      }
      case PickleCode::kDup: {
        PickleValue copy = top();
        push(std::move(copy));
        return true;
      }
      default:
        return false;
    }
  }

  // A memoised value can be converted again and again at a few bytes a time; what that copies or hashes is bounded.
  void charge(std::size_t bytes) {
    charged_ += bytes;
    if (charged_ > limits::kPickleBytes) {
      throw Error(ErrorCode::kFileLimits, where_ + ": the pickle makes more than " +
                                              std::to_string(limits::kPickleBytes) + " bytes out of repeated values");
    }
  }

  void apply(const PickleOp& op) {
    switch (op.code) {
      case PickleCode::kProto:
        if (op.integer > 5) fail("protocol " + std::to_string(op.integer));
        return;
      case PickleCode::kFrame:
        return;
      case PickleCode::kPop:
        // CPython's POP takes a mark if that is what lies on top.
        if (!marks_.empty() && stack_.size() == marks_.back()) {
          marks_.pop_back();
        } else {
          pop();
        }
        return;
      case PickleCode::kPopMark:
        pop_to_mark();
        return;
      case PickleCode::kGlobal:
        push(global(op.text, op.name));
        return;
      case PickleCode::kStackGlobal: {
        const PickleValue name = pop();
        const PickleValue module = pop();
        if (!name.string() || !module.string()) fail("a global without a name");
        push(global(*module.string(), *name.string()));
        return;
      }
      case PickleCode::kBinPersId:
        push_storage(pop());
        return;
      case PickleCode::kReduce:
      case PickleCode::kNewObj:
        reduce(op.code == PickleCode::kNewObj);
        return;
      case PickleCode::kBuild:
        set_state();
        return;
      default:
        throw Error(ErrorCode::kUnsafePickle,
                    where_ + ": pickle: opcode " + std::to_string(static_cast<unsigned>(op.code)) + " at byte " +
                        std::to_string(op.offset) + " is not among those that plain values need",
                    "save plain tensors, numbers, strings, lists, tuples and dicts with torch.save");
    }
  }

  void push_storage(const PickleValue& id) {
    const PickleSequence* tuple = id.sequence();
    if (tuple && tuple->items.size() > 2 && tuple->items[2].string()) charge(tuple->items[2].string()->size());
    push(rebuilder_.storage(id));
  }

  PickleValue global(std::string_view module, std::string_view name) {
    charge(module.size() + name.size());
    return rebuilder_.global(std::string(module) + '.' + std::string(name));
  }

  void push_sequence(std::vector<PickleValue> items, bool is_tuple) {
    const auto sequence = containers_.sequence(is_tuple);
    sequence->items = std::move(items);
    push({sequence});
  }

  void append(std::vector<PickleValue> items) {
    const auto* target = std::get_if<std::shared_ptr<PickleSequence>>(&top().data);
    if (!target || (*target)->is_tuple) fail("items for a " + std::string(type_name(top())));
    auto& list = (*target)->items;
    list.insert(list.end(), std::make_move_iterator(items.begin()), std::make_move_iterator(items.end()));
  }

  /// The top, or where that is a record that is a dict itself (a ModelOutput) its state.
  PickleValue& dict_for_items() {
    auto* object = std::get_if<std::shared_ptr<PickleObject>>(&top().data);
    if (!object || !rebuilder_.is_record((*object)->class_name)) return top();
    if ((*object)->state.is_none()) (*object)->state = {containers_.dict(true)};
    return (*object)->state;
  }

  void set_items(std::vector<PickleValue> items) {
    const auto* target = std::get_if<std::shared_ptr<PickleDict>>(&dict_for_items().data);
    if (!target || items.size() % 2 != 0) fail("key-value pairs for a " + std::string(type_name(top())));
    for (std::size_t i = 0; i < items.size(); i += 2) {
      (*target)->items.emplace_back(std::move(items[i]), std::move(items[i + 1]));
    }
  }

  void reduce(bool new_object) {
    const PickleValue args = pop();
    const PickleValue callee = pop();
    const auto* global = std::get_if<std::shared_ptr<const PickleGlobal>>(&callee.data);
    if (!global) fail("a call of a " + std::string(type_name(callee)));
    const std::string& name = (*global)->name;
    const PickleSequence* tuple = args.sequence();
    if (tuple && !tuple->is_tuple) tuple = nullptr;
    const bool script_class = name.starts_with("__torch__.");
    if (script_class && !new_object && !tuple) {
      // TorchScript's pickler calls an enum with its bare value.
      charge(name.size());
      const auto object = containers_.object(name);
      object->args.push_back(args);
      return push({object});
    }
    if (!tuple) fail("a call with a " + std::string(type_name(args)));
    if (tuple->items.size() > limits::kPickleArguments) {
      fail("a call with " + std::to_string(tuple->items.size()) + " arguments");
    }
    for (const PickleValue& argument : tuple->items) {
      if (argument.string()) charge(argument.string()->size());
    }
    if (name == "collections.OrderedDict") return push_ordered_dict(*tuple);
    if (script_class || rebuilder_.is_record(name)) {
      charge(name.size());
      const auto object = containers_.object(name);
      object->args = tuple->items;
      return push({object});
    }
    if (new_object) fail("a new object of " + quoted_name(name));
    std::optional<PickleValue> result = rebuilder_.call(name, tuple->items);
    if (!result) fail("a call of " + quoted_name(name));
    if (const HostTensor* tensor = result->tensor()) charge(sizeof(HostTensor) + 16 * tensor->sizes.size());
    if (result->sparse_tensor() || result->quantised_tensor()) charge(1'024);
    push(std::move(*result));
  }

  // OrderedDict() as picklers write it, or OrderedDict([(key, value), …]).
  void push_ordered_dict(const PickleSequence& args) {
    const auto dict = containers_.dict(true);
    if (!args.items.empty()) {
      const PickleSequence* pairs = args.items[0].sequence();
      if (args.items.size() != 1 || !pairs) fail("unexpected arguments of OrderedDict");
      charge(pairs->items.size() * sizeof(dict->items[0]));
      for (const PickleValue& item : pairs->items) {
        const PickleSequence* pair = item.sequence();
        if (!pair || pair->items.size() != 2) fail("unexpected arguments of OrderedDict");
        dict->items.emplace_back(pair->items[0], pair->items[1]);
      }
    }
    push({dict});
  }

  void set_state() {
    PickleValue state = pop();
    if (const auto* object = std::get_if<std::shared_ptr<PickleObject>>(&top().data)) {
      // A dict with attributes: what it holds is also among them.
      if (!(*object)->state.is_none() && rebuilder_.is_record((*object)->class_name)) return;
      if (!(*object)->state.is_none()) fail("a second state for " + quoted_name((*object)->class_name));
      (*object)->state = std::move(state);
      return;
    }
    // A state_dict is an OrderedDict with an attribute _metadata, which holds versions of modules: not wanted here.
    if (!top().dict() || !state.dict()) fail("a state for a " + std::string(type_name(top())));
  }

  // Before the values in stack and memo: destroyed after them.
  PickleContainers containers_;
  PickleLexer lexer_;
  const std::string& where_;
  TorchRebuilder& rebuilder_;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::int64_t, PickleValue> memo_;
  std::uint64_t values_ = 0;
  std::uint64_t charged_ = 0;
  std::size_t offset_ = 0;
};

void check_byte_order(const ZipDirectory& zip, const std::string& root) {
  const ZipEntry* entry = zip.find(root + "byteorder");
  if (!entry || entry->size > 16) return;
  const std::string order = zip.read_text(*entry);
  if (order != "little") {
    throw Error(ErrorCode::kUnsupportedKind,
                zip.file_name() + ": its tensors are in byte order " + quoted_name(order) + ", only little is read");
  }
}

}  // namespace

std::string archive_root(const ZipDirectory& zip) {
  if (zip.entries().empty()) return {};
  const std::string& first = zip.entries().front().name;
  const std::size_t slash = first.find('/');
  return slash == std::string::npos ? std::string() : first.substr(0, slash + 1);
}

PickleValue read_torch_pickle(const ZipDirectory& zip, std::string_view pickle, std::string_view storage_prefix,
                              const UnpickleOptions& options) {
  const ZipEntry& entry = zip.at(pickle);
  if (entry.size > limits::kPickleBytes) {
    throw Error(ErrorCode::kFileLimits, zip.file_name() + ": " + quoted_name(pickle) + " has " +
                                            std::to_string(entry.size) + " bytes, the limit is " +
                                            std::to_string(limits::kPickleBytes));
  }
  check_byte_order(zip, archive_root(zip));
  const std::vector<std::byte> bytes = zip.read(entry);
  const std::string where = zip.file_name() + ": " + entry.name;
  TorchRebuilder rebuilder(&zip, std::string(storage_prefix), where, options);
  return Unpickler(bytes, where, rebuilder).run();
}

PickleValue read_torch_pickle(const std::filesystem::path& path, const UnpickleOptions& options) {
  const auto file = MappedFile::open(path);
  if (!looks_like_zip(file->bytes())) {
    throw Error(ErrorCode::kNotAModel, path.string() + ": no zip-form torch.save file",
                "save it with torch.save of PyTorch 1.6 or later, or as .safetensors");
  }
  const ZipDirectory zip(file->bytes(), path.string(), file);
  const std::string root = archive_root(zip);
  return read_torch_pickle(zip, root + "data.pkl", root + "data/", options);
}

PickleValue unpickle(std::span<const std::byte> pickle, const std::string& where, const UnpickleOptions& options) {
  TorchRebuilder rebuilder(nullptr, {}, where, options);
  return Unpickler(pickle, where, rebuilder).run();
}

}  // namespace tl

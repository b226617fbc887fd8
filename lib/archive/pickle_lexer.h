#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tl {

/// Opcodes of the pickle format, protocols 0 to 5 (CPython, Lib/pickletools.py).
enum class PickleCode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kFloat = 'F',
  kInt = 'I',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kLong = 'L',
  kBinInt2 = 'M',
  kNone = 'N',
  kPersId = 'P',
  kBinPersId = 'Q',
  kReduce = 'R',
  kString = 'S',
  kBinString = 'T',
  kShortBinString = 'U',
  kUnicode = 'V',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kEmptyDict = '}',
  kAppends = 'e',
  kGet = 'g',
  kBinGet = 'h',
  kInst = 'i',
  kLongBinGet = 'j',
  kList = 'l',
  kEmptyList = ']',
  kObj = 'o',
  kPut = 'p',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinFloat = 'G',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kNewObj = 0x81,
  kExt1 = 0x82,
  kExt2 = 0x83,
  kExt4 = 0x84,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObjEx = 0x92,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
  kNextBuffer = 0x97,
  kReadOnlyBuffer = 0x98,
};

/// One opcode with its argument; the views point into the pickle.
struct PickleOp {
  PickleCode code = PickleCode::kStop;
  std::size_t offset = 0;    ///< of the opcode, in bytes from the start of the pickle
  std::int64_t integer = 0;  ///< fixed-width integers, memo indices, protocol, frame length, extension code
  double real = 0;           ///< kBinFloat
  std::string_view text;     ///< strings, bytes, two's complement little-endian longs, text lines, module of a global
  std::string_view name;     ///< name of a global (kGlobal, kInst)
};

/// Cuts a pickle into opcodes; knows lengths, executes nothing.
class PickleLexer {
 public:
  /// `where` is used in messages only (file and entry).
  PickleLexer(std::span<const std::byte> pickle, std::string_view where) : pickle_(pickle), where_(where) {}

  /// The next opcode; false after kStop. Throws Error(kFileDamaged) where the pickle ends before kStop, an argument
  /// reaches beyond its end, or an opcode is unknown; Error(kFileLimits) where the pickle is larger than limits.h
  /// allows.
  bool next(PickleOp& op);

  /// Bytes read so far; after kStop, the length of the pickle.
  std::size_t position() const { return at_; }
  /// Throws Error(kFileDamaged) with file and byte offset.
  [[noreturn]] void damaged(std::size_t offset, const std::string& what) const;

 private:
  std::uint64_t number(std::size_t count);
  std::string_view take(std::uint64_t count);
  std::string_view line();
  void read_argument(PickleOp& op);

  std::span<const std::byte> pickle_;
  std::string_view where_;
  std::size_t at_ = 0;
  bool stopped_ = false;
};

}  // namespace tl

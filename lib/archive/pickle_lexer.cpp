#include "archive/pickle_lexer.h"

#include <bit>

#include "archive/byte_reader.h"
#include "archive/limits.h"
#include "core/error.h"

namespace tl {

void PickleLexer::damaged(std::size_t offset, const std::string& what) const {
  throw Error(ErrorCode::kFileDamaged, std::string(where_) + ": pickle: " + what + " at byte " +
                                           std::to_string(offset) + " of " + std::to_string(pickle_.size()));
}

std::string_view PickleLexer::take(std::uint64_t count) {
  if (!range_fits(at_, count, pickle_.size()))
    damaged(at_, "an argument of " + std::to_string(count) + " bytes is cut off");
  const std::string_view text = as_text(pickle_.subspan(at_, static_cast<std::size_t>(count)));
  at_ += static_cast<std::size_t>(count);
  return text;
}

std::uint64_t PickleLexer::number(std::size_t count) {
  const std::size_t start = at_;
  take(count);
  return little_endian_at(pickle_, start, count);
}

std::string_view PickleLexer::line() {
  const std::string_view rest = as_text(pickle_.subspan(at_));
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) damaged(at_, "a text argument without an end");
  at_ += end + 1;
  return rest.substr(0, end);
}

void PickleLexer::read_argument(PickleOp& op) {
  switch (op.code) {
    case PickleCode::kProto:
    case PickleCode::kBinInt1:
    case PickleCode::kBinGet:
    case PickleCode::kBinPut:
    case PickleCode::kExt1:
      op.integer = static_cast<std::int64_t>(number(1));
      return;
    case PickleCode::kBinInt2:
    case PickleCode::kExt2:
      op.integer = static_cast<std::int64_t>(number(2));
      return;
    case PickleCode::kBinInt:
    case PickleCode::kExt4:
      op.integer = static_cast<std::int32_t>(static_cast<std::uint32_t>(number(4)));
      return;
    case PickleCode::kLongBinGet:
    case PickleCode::kLongBinPut:
      op.integer = static_cast<std::int64_t>(number(4));
      return;
    case PickleCode::kFrame:
      take(8);
      return;
    case PickleCode::kBinFloat: {
      std::uint64_t bits = 0;
      for (const char c : take(8)) bits = bits << 8 | static_cast<unsigned char>(c);  // the one big-endian argument
      op.real = std::bit_cast<double>(bits);
      return;
    }
    case PickleCode::kShortBinString:
    case PickleCode::kShortBinUnicode:
    case PickleCode::kShortBinBytes:
    case PickleCode::kLong1:
      op.text = take(number(1));
      return;
    case PickleCode::kBinString:
    case PickleCode::kBinUnicode:
    case PickleCode::kBinBytes:
    case PickleCode::kLong4:
      op.text = take(number(4));
      return;
    case PickleCode::kBinUnicode8:
    case PickleCode::kBinBytes8:
    case PickleCode::kByteArray8:
      op.text = take(number(8));
      return;
    case PickleCode::kFloat:
    case PickleCode::kInt:
    case PickleCode::kLong:
    case PickleCode::kPersId:
    case PickleCode::kString:
    case PickleCode::kUnicode:
    case PickleCode::kGet:
    case PickleCode::kPut:
      op.text = line();
      return;
    case PickleCode::kGlobal:
    case PickleCode::kInst:
      op.text = line();
      op.name = line();
      return;
    case PickleCode::kMark:
    case PickleCode::kStop:
    case PickleCode::kPop:
    case PickleCode::kPopMark:
    case PickleCode::kDup:
    case PickleCode::kNone:
    case PickleCode::kBinPersId:
    case PickleCode::kReduce:
    case PickleCode::kAppend:
    case PickleCode::kBuild:
    case PickleCode::kDict:
    case PickleCode::kEmptyDict:
    case PickleCode::kAppends:
    case PickleCode::kList:
    case PickleCode::kEmptyList:
    case PickleCode::kObj:
    case PickleCode::kSetItem:
    case PickleCode::kTuple:
    case PickleCode::kEmptyTuple:
    case PickleCode::kSetItems:
    case PickleCode::kNewObj:
    case PickleCode::kTuple1:
    case PickleCode::kTuple2:
    case PickleCode::kTuple3:
    case PickleCode::kNewTrue:
    case PickleCode::kNewFalse:
    case PickleCode::kEmptySet:
    case PickleCode::kAddItems:
    case PickleCode::kFrozenSet:
    case PickleCode::kNewObjEx:
    case PickleCode::kStackGlobal:
    case PickleCode::kMemoize:
    case PickleCode::kNextBuffer:
    case PickleCode::kReadOnlyBuffer:
      return;
  }
  damaged(op.offset, "unknown opcode " + std::to_string(static_cast<unsigned>(op.code)));
}

bool PickleLexer::next(PickleOp& op) {
  if (stopped_) return false;
  if (pickle_.size() > limits::kPickleBytes) {
    throw Error(ErrorCode::kFileLimits, std::string(where_) + ": a pickle of " + std::to_string(pickle_.size()) +
                                            " bytes, the limit is " + std::to_string(limits::kPickleBytes));
  }
  if (at_ >= pickle_.size()) damaged(at_, "no stop opcode");
  op = PickleOp{};
  op.offset = at_;
  op.code = static_cast<PickleCode>(std::to_integer<std::uint8_t>(pickle_[at_++]));
  read_argument(op);
  stopped_ = op.code == PickleCode::kStop;
  return true;
}

}  // namespace tl

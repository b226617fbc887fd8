#include "tensor/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace tl {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeaderBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxRank = 64;

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

struct Element {
  DType dtype = DType::kNone;
  std::size_t swap_bytes = 1;  ///< of the words to reverse; 1 for none
};

[[noreturn]] void fail(ErrorCode code, std::string_view shown_name, const std::string& text) {
  throw Error(code, std::string(shown_name) + ": " + text);
}

/// Reads the one Python expression that an npy header is: a dict literal of three known keys. Nothing is evaluated.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string_view shown_name) : text_(text), shown_name_(shown_name) {}

  Header parse() {
    Header header;
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !has_descr) {
        header.descr = descr();
        has_descr = true;
      } else if (key == "fortran_order" && !has_order) {
        header.fortran_order = boolean();
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        header.shape = shape();
        has_shape = true;
      } else {
        damaged("has the unexpected or repeated key '" + elide(key, 40) + "'");
      }
      if (!accept(',') && peek() != '}') damaged(expected("',' or '}'"));
    }
    skip_spaces();
    if (position_ != text_.size()) damaged(expected("nothing"));
    if (!has_descr || !has_order || !has_shape) damaged("lacks descr, fortran_order or shape");
    return header;
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    fail(ErrorCode::kFileDamaged, shown_name_, "its npy header " + what);
  }
  std::string expected(std::string_view what) const {
    return "has something else than " + std::string(what) + " at character " + std::to_string(position_);
  }

  void skip_spaces() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
  }
  char peek() {
    skip_spaces();
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool accept(char wanted) {
    if (peek() != wanted) return false;
    ++position_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) damaged(expected("'" + std::string(1, wanted) + "'"));
  }

  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') damaged(expected("a quoted string"));
    const std::size_t begin = position_ + 1;
    const std::size_t end = text_.find(quote, begin);
    if (end == std::string_view::npos) damaged("ends inside a string");
    const std::string_view inner = text_.substr(begin, end - begin);
    if (inner.find('\\') != std::string_view::npos) damaged("has a backslash in a string");
    position_ = end + 1;
    return std::string(inner);
  }

  std::string descr() {
    if (peek() == '[' || peek() == '(') {
      fail(ErrorCode::kUnsupportedKind, shown_name_,
           "holds a structured array; save each field as an array of its own");
    }
    return quoted();
  }

  bool boolean() {
    skip_spaces();
    for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {std::string_view("False"), false}}) {
      if (text_.substr(position_).starts_with(word)) {
        position_ += word.size();
        return value;
      }
    }
    damaged(expected("True or False"));
  }

  /// A tuple of sizes. NumPy on Python 2 wrote them with a trailing L.
  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> sizes;
    bool comma = true;
    expect('(');
    while (!accept(')')) {
      if (!comma) damaged(expected("',' or ')'"));
      skip_spaces();
      std::int64_t size = 0;
      const char* begin = text_.data() + position_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error != std::errc{} || size < 0) damaged(expected("a size below 2^63"));
      position_ += static_cast<std::size_t>(end - begin);
      if (position_ < text_.size() && text_[position_] == 'L') ++position_;
      if (sizes.size() == kMaxRank) {
        fail(ErrorCode::kFileLimits, shown_name_, "has more than " + std::to_string(kMaxRank) + " axes");
      }
      sizes.push_back(size);
      comma = accept(',');
    }
    if (sizes.size() == 1 && !comma) damaged("has a shape that is no tuple");
    return sizes;
  }

  std::string_view text_;
  std::string_view shown_name_;
  std::size_t position_ = 0;
};

struct DescrRow {
  std::string_view descr;  ///< without the byte order
  DType dtype;
  std::size_t word_bytes;  ///< what a byte order applies to
};

constexpr std::array kDescrRows = {
    DescrRow{"b1", DType::kBool, 1}, DescrRow{"i1", DType::kI8, 1},    DescrRow{"u1", DType::kU8, 1},
    DescrRow{"i2", DType::kI16, 2},  DescrRow{"u2", DType::kU16, 2},   DescrRow{"i4", DType::kI32, 4},
    DescrRow{"u4", DType::kU32, 4},  DescrRow{"i8", DType::kI64, 8},   DescrRow{"u8", DType::kU64, 8},
    DescrRow{"f2", DType::kF16, 2},  DescrRow{"f4", DType::kF32, 4},   DescrRow{"f8", DType::kF64, 8},
    DescrRow{"c8", DType::kC64, 4},  DescrRow{"c16", DType::kC128, 8},
};

Element element_from_descr(std::string_view descr, std::string_view shown_name) {
  const std::string shown = "'" + elide(descr, 40) + "'";
  constexpr std::string_view kOrders = "<>=|";
  if (descr.empty()) fail(ErrorCode::kFileDamaged, shown_name, "its npy header has an empty dtype");
  const char order = kOrders.find(descr[0]) == std::string_view::npos ? '=' : descr[0];
  const std::string_view kind = kOrders.find(descr[0]) == std::string_view::npos ? descr : descr.substr(1);
  const auto* row = std::ranges::find(kDescrRows, kind, &DescrRow::descr);
  if (row != kDescrRows.end()) {
    if (order == '|' && row->word_bytes > 1) {
      fail(ErrorCode::kFileDamaged, shown_name, "has dtype " + shown + ", which lacks a byte order");
    }
    return {.dtype = row->dtype, .swap_bytes = order == '>' ? row->word_bytes : 1};
  }
  std::string reason = "has dtype " + shown + ", which is no tensor element";
  if (kind == "V2") {
    reason = "has dtype " + shown + ", raw bytes as which NumPy stores bfloat16; save a .safetensors file instead";
  } else if (kind.starts_with('O')) {
    reason = "holds Python objects (dtype " + shown + "); loading them would run code, save a numeric array";
  }
  fail(ErrorCode::kUnsupportedKind, shown_name, reason);
}

/// The text of the header; its end is where the data begins.
std::string_view header_text(std::span<const std::byte> bytes, std::string_view shown_name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || text.size() < 10) fail(ErrorCode::kFileDamaged, shown_name, "is no npy file");
  const auto major = std::to_integer<unsigned>(bytes[6]);
  if (major < 1 || major > 3) {
    fail(ErrorCode::kUnsupportedVersion, shown_name,
         "has npy format version " + std::to_string(major) + ", this build reads 1 to 3");
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t start = 8 + length_bytes;
  std::size_t length = 0;
  if (text.size() < start) fail(ErrorCode::kFileDamaged, shown_name, "ends inside the npy header");
  for (std::size_t i = length_bytes; i-- > 0;) length = length << 8 | std::to_integer<std::size_t>(bytes[8 + i]);
  if (length > text.size() - start) {
    fail(ErrorCode::kFileDamaged, shown_name,
         "claims an npy header of " + std::to_string(length) + " bytes, but only " +
             std::to_string(text.size() - start) + " follow");
  }
  if (length > kMaxHeaderBytes) {
    fail(ErrorCode::kFileLimits, shown_name,
         "has an npy header of " + std::to_string(length) + " bytes, above the limit of " +
             std::to_string(kMaxHeaderBytes));
  }
  return text.substr(start, length);
}

std::vector<std::int64_t> fortran_strides(std::vector<std::int64_t> sizes) {
  std::ranges::reverse(sizes);
  std::vector<std::int64_t> strides = contiguous_strides(sizes);
  std::ranges::reverse(strides);
  return strides;
}

std::shared_ptr<const std::byte[]> swapped(std::span<const std::byte> data, std::size_t word) {
  auto block = std::make_shared_for_overwrite<std::byte[]>(data.size());
  for (std::size_t at = 0; at < data.size(); at += word) {
    std::reverse_copy(data.begin() + static_cast<std::ptrdiff_t>(at),
                      data.begin() + static_cast<std::ptrdiff_t>(at + word), block.get() + at);
  }
  return block;
}

}  // namespace

HostTensor read_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string_view shown_name) {
  const std::string_view text = header_text(bytes, shown_name);
  Header header = HeaderParser(text, shown_name).parse();
  const Element element = element_from_descr(header.descr, shown_name);
  HostTensor tensor;
  tensor.dtype = element.dtype;
  tensor.sizes = std::move(header.shape);
  const auto data_start =
      static_cast<std::size_t>(reinterpret_cast<const std::byte*>(text.data() + text.size()) - bytes.data());
  tensor.storage = bytes.subspan(data_start);
  std::size_t needed = 0;
  try {
    needed = tensor.nbytes();
  } catch (const Error& error) {
    fail(error.code, shown_name, error.message);
  }
  if (needed != tensor.storage.size()) {
    fail(ErrorCode::kFileDamaged, shown_name,
         std::to_string(tensor.numel()) + " elements of " + std::string(short_name(tensor.dtype)) + " need " +
             std::to_string(needed) + " bytes, " + std::to_string(tensor.storage.size()) + " follow the npy header");
  }
  tensor.strides = header.fortran_order ? fortran_strides(tensor.sizes) : contiguous_strides(tensor.sizes);
  tensor.owner = std::move(owner);
  if (element.swap_bytes > 1) {
    const auto block = swapped(tensor.storage, element.swap_bytes);
    tensor.storage = {block.get(), needed};
    tensor.owner = block;
  }
  return tensor;
}

}  // namespace tl

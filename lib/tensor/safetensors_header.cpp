#include "tensor/safetensors_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace tl {
namespace {

using Json = nlohmann::json;

/// Keys of the metadata: writers put a handful there, and each takes ten times its bytes in the file.
constexpr std::size_t kMaxMetadata = 1'000'000;

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  const std::optional<DType> dtype = dtype_from_name(name);
  if (dtype && dtype_info(*dtype).safetensors_name == name) return dtype;
  return std::nullopt;
}

/// Receives the events of the JSON parser. Three levels: the root, a tensor or the metadata, a list of numbers;
/// whatever is nested deeper or stands elsewhere is refused when it begins, so depth needs no counter of its own.
class HeaderHandler : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderHandler(std::string_view shown_name) : shown_name_(shown_name) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kRoot;
        return true;
      case Place::kRoot:
        place_ = key_ == kSafetensorsMetadataKey ? Place::kMetadata : Place::kTensor;
        if (place_ == Place::kMetadata && std::exchange(has_metadata_, true)) hostile("the metadata appears twice");
        seen_ = {};
        if (place_ == Place::kTensor) header_.entries.emplace_back().name = key_;
        return true;
      default:
        unexpected("an object");
    }
  }

  bool key(string_t& text) override {
    switch (place_) {
      case Place::kRoot:
        key_ = text;
        return true;
      case Place::kMetadata:
        field_ = text;
        if (header_.metadata.contains(text)) hostile("the metadata key " + shown_tensor(text) + " appears twice");
        if (header_.metadata.size() == kMaxMetadata) {
          throw Error(ErrorCode::kFileLimits,
                      std::string(shown_name_) + ": more than " + std::to_string(kMaxMetadata) + " keys of metadata");
        }
        return true;
      default:
        field_ = text;
        mark_seen(text);
        return true;
    }
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      for (std::size_t i = 0; i < kFields.size(); ++i) {
        if (!seen_[i]) damaged(site() + " has no " + std::string(kFields[i]));
      }
      if (offsets_ != 2) damaged(site() + ": data_offsets has " + std::to_string(offsets_) + " numbers, not 2");
    }
    place_ = place_ == Place::kRoot ? Place::kEnd : Place::kRoot;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || field_ == "dtype") unexpected("a list");
    place_ = field_ == "shape" ? Place::kShape : Place::kOffsets;
    if (place_ == Place::kOffsets) offsets_ = 0;
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      add_size(value);
    } else if (place_ == Place::kOffsets) {
      if (offsets_ == 0) header_.entries.back().begin = value;
      if (offsets_ == 1) header_.entries.back().end = value;
      ++offsets_;
    } else {
      unexpected("the number " + std::to_string(value));
    }
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::kMetadata) {
      header_.metadata.emplace(field_, text);
    } else if (place_ == Place::kTensor && field_ == "dtype") {
      set_dtype(text);
    } else {
      unexpected("the string '" + elide(text, 40) + "'");
    }
    return true;
  }

  bool number_integer(number_integer_t value) override { unexpected("the number " + std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { unexpected("the number " + elide(text, 40)); }
  bool null() override { unexpected("null"); }
  bool boolean(bool value) override { unexpected(value ? "true" : "false"); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    damaged("the header is not valid JSON at its byte " + std::to_string(position));
  }

 private:
  enum class Place { kStart, kRoot, kMetadata, kTensor, kShape, kOffsets, kEnd };
  static constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};

  [[noreturn]] void damaged(const std::string& text) const {
    throw Error(ErrorCode::kFileDamaged, std::string(shown_name_) + ": " + text);
  }
  [[noreturn]] void hostile(const std::string& text) const {
    throw Error(ErrorCode::kFileHostile, std::string(shown_name_) + ": " + text);
  }
  [[noreturn]] void unexpected(const std::string& what) const {
    damaged(site() + ": " + what + " where the format has none");
  }

  std::string site() const {
    if (place_ == Place::kStart) return "header";
    if (place_ == Place::kMetadata || key_ == kSafetensorsMetadataKey) return "metadata";
    const bool inside = place_ == Place::kTensor || place_ == Place::kShape || place_ == Place::kOffsets;
    return "tensor " + shown_tensor(key_) + (inside && !field_.empty() ? ", " + elide(field_, 40) : "");
  }

  void mark_seen(const std::string& text) {
    const auto field = std::ranges::find(kFields, text);
    if (field == kFields.end()) unexpected("the key '" + elide(text, 40) + "'");
    bool& seen = seen_[static_cast<std::size_t>(field - kFields.begin())];
    if (seen) hostile(site() + " appears twice");
    seen = true;
  }

  void add_size(std::uint64_t value) {
    std::vector<std::int64_t>& sizes = header_.entries.back().sizes;
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      damaged(site() + ": size " + std::to_string(value) + " is above 2^63 - 1");
    }
    if (sizes.size() == SafetensorsFile::kMaxRank) {
      throw Error(ErrorCode::kFileLimits, std::string(shown_name_) + ": " + site() + " has more than " +
                                              std::to_string(SafetensorsFile::kMaxRank) + " axes");
    }
    sizes.push_back(static_cast<std::int64_t>(value));
  }

  void set_dtype(const std::string& text) {
    if (const auto dtype = dtype_from_safetensors(text)) {
      header_.entries.back().dtype = *dtype;
      return;
    }
    if (text == "F4" || text == "F6_E2M3" || text == "F6_E3M2") {
      throw Error(ErrorCode::kUnsupportedKind, std::string(shown_name_) + ": tensor " + shown_tensor(key_) +
                                                   " has dtype " + text + ", whose elements are smaller than a byte");
    }
    damaged("tensor " + shown_tensor(key_) + " has the unknown dtype '" + elide(text, 40) + "'");
  }

  std::string_view shown_name_;
  SafetensorsHeader header_;
  Place place_ = Place::kStart;
  std::string key_;    ///< at the root: a tensor's name or __metadata__
  std::string field_;  ///< inside a tensor or the metadata
  bool has_metadata_ = false;
  std::array<bool, 3> seen_{};
  std::size_t offsets_ = 0;
};

/// Reads the one form that every writer puts a header in: no blanks but at the end, names of plain ASCII, the fields in
/// the format's order, no metadata. Gives up at whatever else it meets, without saying why. Headers of hundreds of
/// thousands of tensors are read five times as fast as by the parser of JSON.
class CompactHeader {
 public:
  explicit CompactHeader(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  std::optional<SafetensorsHeader> read() {
    SafetensorsHeader header;
    if (!skip("{")) return std::nullopt;
    do {
      if (!read_entry(header.entries.emplace_back())) return std::nullopt;
    } while (skip(","));
    if (!skip("}")) return std::nullopt;
    while (at_ != end_ && *at_ == ' ') ++at_;
    if (at_ != end_) return std::nullopt;
    return header;
  }

 private:
  bool skip(std::string_view text) {
    if (!std::string_view(at_, end_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  std::optional<std::string_view> read_string() {
    if (!skip("\"")) return std::nullopt;
    const char* begin = at_;
    while (at_ != end_ && *at_ >= 0x20 && *at_ < 0x7f && *at_ != '"' && *at_ != '\\') ++at_;
    const std::string_view text(begin, at_);
    if (!skip("\"")) return std::nullopt;
    return text;
  }

  /// A number of JSON without sign, fraction and exponent.
  template <typename Number>
  bool read_number(Number& number) {
    if (at_ == end_ || *at_ < '0' || *at_ > '9' || (*at_ == '0' && at_ + 1 != end_ && at_[1] >= '0' && at_[1] <= '9')) {
      return false;
    }
    const auto [rest, error] = std::from_chars(at_, end_, number);
    if (error != std::errc()) return false;
    at_ = rest;
    return true;
  }

  bool read_entry(SafetensorsEntry& entry) {
    const auto name = read_string();
    if (!name || *name == kSafetensorsMetadataKey || !skip(R"(:{"dtype":)")) return false;
    entry.name = *name;
    const auto dtype_text = read_string();
    const auto dtype = dtype_text ? dtype_from_safetensors(*dtype_text) : std::nullopt;
    if (!dtype || !skip(R"(,"shape":[)")) return false;
    entry.dtype = *dtype;
    while (!skip("]")) {
      if (entry.sizes.size() == SafetensorsFile::kMaxRank || (!entry.sizes.empty() && !skip(","))) return false;
      if (!read_number(entry.sizes.emplace_back())) return false;
    }
    return skip(R"(,"data_offsets":[)") && read_number(entry.begin) && skip(",") && read_number(entry.end) &&
           skip("]}");
  }

  const char* at_;
  const char* end_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::string_view shown_name) {
  if (!text.starts_with('{')) {
    throw Error(ErrorCode::kFileDamaged, std::string(shown_name) + ": the header does not begin with '{'");
  }
  if (auto header = CompactHeader(text).read()) return *std::move(header);
  HeaderHandler handler(shown_name);
  Json::sax_parse(text, &handler);
  return handler.take();
}

std::string format_safetensors_header(const SafetensorsHeader& header) {
  std::string text = "{";
  text.reserve(128 * header.entries.size() + 64);
  const auto add_key = [&](std::string_view key) {
    if (text.size() > 1) text += ',';
    const bool plain = std::ranges::all_of(key, [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
    if (plain) {
      text += '"';
      text += key;
      text += '"';
    } else {
      text += Json(key).dump();
    }
    text += ':';
  };
  if (!header.metadata.empty()) {
    add_key(kSafetensorsMetadataKey);
    text += Json(header.metadata).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  for (const SafetensorsEntry& entry : header.entries) {
    add_key(entry.name);
    text += R"({"dtype":")";
    text += dtype_info(entry.dtype).safetensors_name;
    text += R"(","shape":[)";
    for (std::size_t i = 0; i < entry.sizes.size(); ++i) {
      if (i != 0) text += ',';
      text += std::to_string(entry.sizes[i]);
    }
    text += R"(],"data_offsets":[)" + std::to_string(entry.begin) + ',' + std::to_string(entry.end) + "]}";
  }
  return text + '}';
}

std::string shown_tensor(std::string_view name) { return "'" + elide(name, 80) + "'"; }

}  // namespace tl

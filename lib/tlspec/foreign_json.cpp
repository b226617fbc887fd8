#include "tlspec/foreign_json.h"

#include <array>
#include <cctype>
#include <limits>

#include "core/error.h"
#include "core/text.h"
#include "tensor/host_tensor.h"

namespace tl {
namespace {

std::string lower(std::string_view text) {
  std::string result;
  for (const char c : text) result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

}  // namespace

std::string with_json_words(std::string_view text) {
  if (text.find("nan") == std::string_view::npos && text.find("inf") == std::string_view::npos) return {};
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  std::string result;
  std::size_t done = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (in_string) {
      if (text[at] == '\\')
        ++at;
      else if (text[at] == '"')
        in_string = false;
      continue;
    }
    in_string = text[at] == '"';
    const auto word = text.substr(at, 3);
    if ((word != "nan" && word != "inf") || (at > 0 && is_word(text[at - 1]))) continue;
    if (at + 3 < text.size() && is_word(text[at + 3])) continue;
    const bool minus_nan = word == "nan" && at > 0 && text[at - 1] == '-';
    result.append(text.substr(done, at - done - (minus_nan ? 1 : 0)));
    result.append(word == "nan" ? "NaN" : "Infinity");
    at += 2;
    done = at + 1;
  }
  if (done != 0) result.append(text.substr(done));
  return result;
}

std::optional<double> number_of(JsonRef value) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (value.is_integer()) return static_cast<double>(value.integer());
  if (value.is_real()) return value.real();
  if (!value.is_string() || value.string().size() > 12) return std::nullopt;
  const auto word = lower(value.string());
  if (word == "nan" || word == "-nan") return kNan;
  if (word == "inf" || word == "infinity") return kInf;
  if (word == "-inf" || word == "-infinity") return -kInf;
  return std::nullopt;
}

ForeignObject::ForeignObject(const JsonTape& tape, JsonRef value, std::string_view what)
    : tape_(&tape), value_(value), what_(what) {
  if (value && value.is_object()) return;
  throw Error(ErrorCode::kFileDamaged,
              tape.shown_name() + ": " + std::string(what) + " is " +
                  (value ? std::string(kind_name(value)) + " at byte " + std::to_string(value.offset()) : "missing") +
                  ", not an object");
}

void ForeignObject::fail(std::string_view key, const std::string& text) const {
  throw Error(ErrorCode::kFileDamaged, tape_->shown_name() + ": " + std::string(what_) + " at byte " +
                                           std::to_string(value_.offset()) + ": " + std::string(key) + " " + text);
}

void ForeignObject::wrong_type(std::string_view key, JsonRef found, std::string_view expected) const {
  fail(key, "is " + std::string(kind_name(found)) + ", not " + std::string(expected));
}

JsonRef ForeignObject::member(std::string_view key) const {
  const auto found = value_.find(key);
  return found && !found.is_null() ? found : JsonRef();
}

bool ForeignObject::has(std::string_view key) const { return static_cast<bool>(member(key)); }

std::string ForeignObject::string(std::string_view key) const {
  const auto found = member(key);
  if (!found) return {};
  if (!found.is_string()) wrong_type(key, found, "a string");
  return std::string(found.string());
}

std::optional<std::int64_t> ForeignObject::integer(std::string_view key) const {
  const auto found = member(key);
  if (!found) return std::nullopt;
  if (!found.is_integer()) wrong_type(key, found, "an integer");
  return found.integer();
}

std::optional<double> ForeignObject::number(std::string_view key) const {
  const auto found = member(key);
  if (!found) return std::nullopt;
  const auto value = number_of(found);
  if (!value) wrong_type(key, found, "a number");
  return value;
}

std::optional<bool> ForeignObject::boolean(std::string_view key) const {
  const auto found = member(key);
  if (!found) return std::nullopt;
  if (!found.is_bool()) wrong_type(key, found, "a bool");
  return found.boolean();
}

std::vector<std::int64_t> ForeignObject::sizes(std::string_view key) const {
  constexpr std::size_t kMaxRank = 64;
  std::vector<std::int64_t> sizes;
  const auto found = list(key);
  if (!found) return sizes;
  if (found.size() > kMaxRank) {
    fail(key, "has " + std::to_string(found.size()) + " sizes, more than " + std::to_string(kMaxRank));
  }
  std::int64_t product = 1;
  for (const auto item : found.items()) {
    if (!item.is_integer() || item.integer() < 0) fail(key, "holds something else than sizes");
    sizes.push_back(item.integer());
    if (item.integer() != 0 && product > std::numeric_limits<std::int64_t>::max() / item.integer() / 16) {
      fail(key, "has more elements than fit");
    }
    product *= std::max<std::int64_t>(item.integer(), 1);
  }
  return sizes;
}

std::vector<ForeignObject> ForeignObject::objects(std::string_view key) const {
  std::vector<ForeignObject> result;
  const auto found = list(key);
  if (!found) return result;
  result.reserve(found.size());
  for (const auto item : found.items()) {
    if (!item.is_object()) fail(key, "holds " + std::string(kind_name(item)) + ", not only objects");
    result.emplace_back(*tape_, item, "a record");
  }
  return result;
}

std::vector<std::string> ForeignObject::strings(std::string_view key) const {
  std::vector<std::string> result;
  const auto found = list(key);
  if (!found) return result;
  for (const auto item : found.items()) {
    if (!item.is_string()) fail(key, "holds " + std::string(kind_name(item)) + ", not only strings");
    result.emplace_back(item.string());
  }
  return result;
}

std::optional<ForeignObject> ForeignObject::object(std::string_view key) const {
  const auto found = member(key);
  if (!found) return std::nullopt;
  if (!found.is_object()) wrong_type(key, found, "an object");
  return ForeignObject(*tape_, found, "an object");
}

std::vector<std::pair<std::string, std::string>> ForeignObject::texts(std::string_view key) const {
  std::vector<std::pair<std::string, std::string>> result;
  const auto found = object(key);
  if (!found) return result;
  for (const auto [name, value] : found->value().members()) {
    if (!value.is_string()) found->fail(name, "is " + std::string(kind_name(value)) + ", not a string");
    result.emplace_back(name, value.string());
  }
  return result;
}

JsonRef ForeignObject::list(std::string_view key) const {
  const auto found = member(key);
  if (!found) return {};
  if (!found.is_array()) wrong_type(key, found, "a list");
  return found;
}

}  // namespace tl

#include "json_mutator.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "core/bounded_json.h"
#include "core/error.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace tl::fuzz {
namespace {

using Json = nlohmann::json;
using Random = std::minstd_rand;

void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  for (Json& child : value) {
    if (value.is_structured()) collect(child, all);
  }
}

Json extreme(const Json& value, Random& random) {
  const std::vector<Json> choices = {nullptr,
                                     true,
                                     0,
                                     -1,
                                     1,
                                     64,
                                     std::numeric_limits<std::int64_t>::max(),
                                     std::numeric_limits<std::int64_t>::min(),
                                     std::uint64_t{1} << 32,
                                     1e300,
                                     "",
                                     "../x",
                                     Json::array(),
                                     Json::object(),
                                     Json::array({value}),
                                     value.is_number_integer() ? Json(value.get<std::uint64_t>() + 1) : value};
  return choices[random() % choices.size()];
}

/// Something inside a list or object: an element removed, repeated or renamed.
void change_inside(Json& value, const std::vector<Json*>& all, Random& random) {
  if (value.empty()) return;
  const std::size_t at = random() % value.size();
  if (value.is_array()) {
    if (random() % 2 == 0) {
      value.erase(at);
    } else {
      value.push_back(Json(value[at]));
    }
    return;
  }
  const Json& other = *all[random() % all.size()];
  std::string name;
  if (other.is_object() && !other.empty()) name = std::next(other.begin(), random() % other.size()).key();
  const auto item = std::next(value.begin(), at);
  const Json moved = *item;
  value.erase(item);
  if (random() % 2 == 0) value[name] = moved;
}

void change(Json& document, Random& random) {
  std::vector<Json*> all;
  collect(document, all);
  Json& value = *all[random() % all.size()];
  const Json other = *all[random() % all.size()];
  switch (random() % 6) {
    case 0:
    case 1:
      if (value.type() == other.type()) value = other;
      break;
    case 2:
      value = other;
      break;
    case 3:
      value = extreme(Json(value), random);
      break;
    default:
      if (value.is_structured()) change_inside(value, all, random);
      break;
  }
}

}  // namespace

std::string mutated_json(std::string_view text, std::uint32_t seed) {
  constexpr JsonLimits kShallow = {.depth = 64, .unique_keys = false};  // what follows recurses
  Json document;
  try {
    document = parse_bounded_json(text, "input", kShallow);
  } catch (const Error&) {
    return std::string(text);
  }
  Random random(seed);
  for (std::size_t changes = 1 + random() % 4; changes > 0; --changes) change(document, random);
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::size_t mutate_json_input(std::uint8_t* data, std::size_t size, std::size_t max_size, std::uint32_t seed) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\0'), input.size());
  if (seed % 4 == 0 || end == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::string text = mutated_json(std::string_view(input).substr(0, end), seed / 4) + input.substr(end);
  if (text == input || text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

}  // namespace tl::fuzz

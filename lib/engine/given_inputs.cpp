#include "engine/given_inputs.h"

#include "core/float_text.h"
#include "core/text.h"

namespace tl {
namespace {

std::string tensor_text(const HostTensor& tensor) {
  std::string text(short_name(tensor.dtype));
  text += '[';
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(tensor.sizes[i]);
  return text + ']';
}

std::string container_text(const char* kind, std::size_t count, const InputValue* first) {
  std::string text = std::string(kind) + " of " + std::to_string(count);
  if (first == nullptr) return text;
  return text + " (" + describe(*first) + (count > 1 ? ", …)" : ")");
}

struct Describer {
  std::string operator()(const InputValue::None&) const { return "none"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return float_text(value); }
  std::string operator()(const std::string& value) const { return '"' + elide(value, 40) + '"'; }
  std::string operator()(const HostTensor& value) const { return tensor_text(value); }
  std::string operator()(const InputValue::List& value) const {
    return container_text("list", value.size(), value.empty() ? nullptr : &value.front());
  }
  std::string operator()(const InputValue::Tuple& value) const {
    return container_text("tuple", value.elements.size(), value.elements.empty() ? nullptr : &value.elements.front());
  }
  std::string operator()(const InputValue::Dict& value) const {
    return container_text("dict", value.size(), value.empty() ? nullptr : &value.front().second);
  }
};

}  // namespace

std::string describe(const InputValue& value) { return std::visit(Describer{}, value.data); }

}  // namespace tl

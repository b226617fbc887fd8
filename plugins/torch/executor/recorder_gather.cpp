#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <string_view>

#include "bridge/tensor_bridge.h"
#include "core/error.h"
#include "executor/batched_view.h"
#include "executor/packed_args.h"
#include "executor/recorder.h"

// What a call reads, gathered before the call consumes it: parents, parameter uses, run-time arguments.
namespace tl::lt {
namespace {

constexpr std::uint32_t kNone = 0xffffffff;
constexpr std::size_t kMaxStringValue = 4096;  // longer host strings are stored cut

}  // namespace

void Recorder::gather_tensor(const at::Tensor& tensor, Prov prov, std::int16_t arg, std::int16_t sub) {
  if (!tensor.defined()) return;
  auto* storage = storage_of(tensor);
  input_storages_.push_back(storage);
  input_impls_.push_back(tensor.unsafeGetTensorImpl());
  auto producer = kNone;
  switch (prov.tag()) {
    case Prov::Tag::kOp:
      producer = prov.index();
      break;
    case Prov::Tag::kBuffer:
      producer = buffer_row(prov.index());
      break;
    case Prov::Tag::kParam:
      param_uses_.push_back({0, prov.index(), arg});
      only_constants_ = only_constants_ && tensor.dim() == 0 &&
                        capture_.params.kind[prov.index()] == static_cast<std::uint8_t>(ParamKind::kConstant);
      break;
    case Prov::Tag::kFlow:
      words_.push_back(ArgHeader{ArgTag::kNone, static_cast<std::uint16_t>(arg), prov.index()}.pack());
      break;
    default:
      break;
  }
  if (!writers_.empty() && storage != nullptr) {
    const auto found = writers_.find(storage, producer, capture_);
    if (found.writer != kNone) {
      if (producer != kNone && !found.covers_producer) edges_.push_back({producer, arg, sub});
      edges_.push_back({found.writer, found.covers_producer ? arg : std::int16_t{-1}, sub});
      if (found.covers_producer) note_own_shape(tensor, found.writer, arg, sub);
      return;
    }
  }
  if (producer != kNone) edges_.push_back({producer, arg, sub});
}

void Recorder::note_own_shape(const at::Tensor& tensor, std::uint32_t writer, std::int16_t arg, std::int16_t sub) {
  const auto& written = capture_.events[writer];
  const auto sizes = tensor.sizes();
  if (written.dtype == dtype_of(tensor) &&
      std::ranges::equal(capture_.shapes[static_cast<std::int32_t>(written.shape)], sizes))
    return;
  words_.push_back(ArgHeader{ArgTag::kTensor, static_cast<std::uint16_t>(arg), ArgHeader::kNoFlow}.pack());
  words_.push_back(static_cast<std::int64_t>(sizes.size()) + 2);
  words_.push_back(static_cast<std::int64_t>(dtype_of(tensor)));
  words_.push_back(sub);
  words_.insert(words_.end(), sizes.begin(), sizes.end());
}

void Recorder::gather_value(const c10::IValue& value, Prov prov, std::int16_t arg, std::int16_t* sub) {
  if (value.isTensor()) {
    gather_tensor(value.toTensor(), prov, arg, sub ? (*sub)++ : std::int16_t{-1});
    return;
  }
  std::int16_t running = 0;
  auto* next = sub ? sub : &running;
  if (value.isList() && may_hold_tensor(*value.toList().elementType())) {
    const auto elements = value.toListRef();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      gather_value(elements[i], containers_.item(prov, static_cast<std::int64_t>(i)), arg, next);
    }
  } else if (value.isTuple()) {
    const auto& elements = value.toTupleRef().elements();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      gather_value(elements[i], containers_.item(prov, static_cast<std::int64_t>(i)), arg, next);
    }
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      gather_value(entry.value(), containers_.item_by_key(prov, entry.key()), arg, next);
    }
  }
}

void Recorder::push_packed(ArgTag tag, std::uint16_t position, std::uint32_t flow, const c10::IValue& value,
                           std::vector<std::int64_t>& words) {
  words.push_back(ArgHeader{tag, position, flow}.pack());
  switch (tag) {
    case ArgTag::kNone:
    case ArgTag::kTensor:  // of no host value
      break;
    case ArgTag::kInt:
      words.push_back(value.toInt());
      break;
    case ArgTag::kBool:
      words.push_back(value.toBool() ? 1 : 0);
      break;
    case ArgTag::kDouble:
      words.push_back(std::bit_cast<std::int64_t>(value.toDouble()));
      break;
    case ArgTag::kString:
      words.push_back(capture_.strings.intern(std::string_view(value.toStringRef()).substr(0, kMaxStringValue)));
      break;
    case ArgTag::kIntList:
    case ArgTag::kDoubleList:
    case ArgTag::kBoolList: {
      const auto elements = value.toListRef();
      words.push_back(static_cast<std::int64_t>(elements.size()));
      for (const auto& element : elements) {
        if (tag == ArgTag::kIntList)
          words.push_back(element.toInt());
        else if (tag == ArgTag::kBoolList)
          words.push_back(element.toBool() ? 1 : 0);
        else
          words.push_back(std::bit_cast<std::int64_t>(element.toDouble()));
      }
      break;
    }
    case ArgTag::kOp:
    case ArgTag::kOther:
      words.push_back(capture_.strings.intern(text_of(value)));
      break;
  }
}

ArgTag tag_of(const c10::IValue& value) {
  if (value.isNone()) return ArgTag::kNone;
  if (value.isInt()) return ArgTag::kInt;
  if (value.isBool()) return ArgTag::kBool;
  if (value.isDouble()) return ArgTag::kDouble;
  if (value.isString()) return ArgTag::kString;
  if (value.isIntList()) return ArgTag::kIntList;
  if (value.isDoubleList()) return ArgTag::kDoubleList;
  if (value.isBoolList()) return ArgTag::kBoolList;
  return ArgTag::kOther;
}

void Recorder::gather_host(const c10::IValue& value, Prov prov, std::uint16_t arg) {
  const auto flow = prov.is(Prov::Tag::kFlow) ? prov.index() : ArgHeader::kNoFlow;
  push_packed(tag_of(value), arg, flow, value, words_);
}

void Recorder::gather(const Instruction& instruction, c10::ArrayRef<c10::IValue> args, const Prov* provs) {
  edges_.clear();
  param_uses_.clear();
  words_.clear();
  input_storages_.clear();
  input_impls_.clear();
  written_.clear();
  only_constants_ = true;
  for (const auto position : instruction.tensor_inputs) {
    const auto& value = args[position];
    if (value.isTensor()) {
      gather_tensor(value.toTensor(), provs[position], static_cast<std::int16_t>(position), -1);
    } else if (!value.isNone()) {
      gather_value(value, provs[position], static_cast<std::int16_t>(position), nullptr);
    }
  }
  for (const auto position : instruction.host_inputs) gather_host(args[position], provs[position], position);
  if (watch_ != nullptr && watch_->wants_arguments()) watch_->note_arguments(args, provs);
  if (!instruction.writes && !instruction.foreign) return;
  const auto add_written = [&](std::size_t position, bool hidden) {
    if (args[position].isTensor() && args[position].toTensor().defined()) {
      written_.push_back({args[position].toTensor(), provs[position], hidden});
    } else if (args[position].isTensorList()) {
      const auto elements = args[position].toListRef();
      for (std::size_t i = 0; i < elements.size(); ++i) {
        written_.push_back(
            {elements[i].toTensor(), containers_.item(provs[position], static_cast<std::int64_t>(i)), hidden});
      }
    }
  };
  for (const auto position : instruction.announced_writes) add_written(position, false);
  if (instruction.hidden_writes != 0 &&
      (instruction.hidden_writes_if < 0 || args[static_cast<std::size_t>(instruction.hidden_writes_if)].toBool())) {
    for (std::size_t position = 0; position < args.size() && position < 32; ++position) {
      if ((instruction.hidden_writes >> position & 1) != 0) add_written(position, true);
    }
  }
}

}  // namespace tl::lt

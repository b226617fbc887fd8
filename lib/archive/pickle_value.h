#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/host_tensor.h"

namespace tl {

struct PickleSequence;
struct PickleDict;
struct PickleObject;

/// A sparse tensor as its parts. `layout` is torch's name: sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc.
struct PickleSparseTensor {
  std::string layout;
  std::vector<std::int64_t> sizes;  ///< of the dense tensor
  HostTensor indices;               ///< sparse_coo: [sparse dims, nnz]; else the plain indices (csr: columns)
  HostTensor compressed;            ///< csr/csc/bsr/bsc: the compressed indices (csr: row starts); sparse_coo: none
  HostTensor values;
};

/// A quantised tensor as its integers and parameters.
struct PickleQuantisedTensor {
  DType dtype = DType::kNone;  ///< kQI8, kQU8, kQI32
  HostTensor int_repr;         ///< kI8, kU8, kI32
  bool per_channel = false;
  double scale = 0;             ///< per tensor
  std::int64_t zero_point = 0;  ///< per tensor
  HostTensor scales;            ///< per channel, f64
  HostTensor zero_points;       ///< per channel, i64
  std::int64_t axis = 0;        ///< per channel
};

struct PickleBytes {
  std::shared_ptr<const std::string> bytes;  ///< never null
};
/// An integer outside int64, as decimal digits with an optional minus.
struct PickleBigInt {
  std::string digits;
};
/// A torch.device: "cpu", "cuda:1".
struct PickleDevice {
  std::string name;
};
/// The storage of a tensor; only inside the unpickler, never in a value it returns.
struct PickleStorage {
  DType dtype = DType::kNone;  ///< kNone: untyped
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  bool has_data = true;
  std::uint64_t size = 0;  ///< bytes in the file, also where they are not here
};
/// A name that a pickle refers to; only inside the unpickler, never in a value it returns.
struct PickleGlobal {
  std::string name;
};

/// One plain value out of a pickle. Copies are cheap: strings, containers and tensors are shared and must be left as
/// they are. Nesting and the number of values, counted with repetition of shared ones, are bounded (limits.h) and free
/// of cycles, so recursive walks are safe.
struct PickleValue {
  using Variant = std::variant<std::monostate, bool, std::int64_t, PickleBigInt, double, std::complex<double>,
                               std::shared_ptr<const std::string>, PickleBytes, DType, PickleDevice,
                               std::shared_ptr<const HostTensor>, std::shared_ptr<const PickleSparseTensor>,
                               std::shared_ptr<const PickleQuantisedTensor>, std::shared_ptr<PickleSequence>,
                               std::shared_ptr<PickleDict>, std::shared_ptr<PickleObject>,
                               std::shared_ptr<const PickleStorage>, std::shared_ptr<const PickleGlobal>>;
  Variant data;

  bool is_none() const { return std::holds_alternative<std::monostate>(data); }
  /// nullptr if the value is of another type.
  const bool* boolean() const { return std::get_if<bool>(&data); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&data); }
  const double* real() const { return std::get_if<double>(&data); }
  const std::complex<double>* complex() const { return std::get_if<std::complex<double>>(&data); }
  const std::string* string() const { return pointee<const std::string>(); }
  const std::string* bytes() const {
    const auto* held = std::get_if<PickleBytes>(&data);
    return held ? held->bytes.get() : nullptr;
  }
  const HostTensor* tensor() const { return pointee<const HostTensor>(); }
  const PickleSparseTensor* sparse_tensor() const { return pointee<const PickleSparseTensor>(); }
  const PickleQuantisedTensor* quantised_tensor() const { return pointee<const PickleQuantisedTensor>(); }
  const PickleSequence* sequence() const { return pointee<PickleSequence>(); }  ///< list or tuple
  const PickleDict* dict() const { return pointee<PickleDict>(); }
  const PickleObject* object() const { return pointee<PickleObject>(); }

 private:
  template <typename T>
  T* pointee() const {
    const auto* shared = std::get_if<std::shared_ptr<T>>(&data);
    return shared ? shared->get() : nullptr;
  }
};

/// A list or tuple.
struct PickleSequence {
  std::vector<PickleValue> items;
  bool is_tuple = false;
};

/// A dict or OrderedDict, in insertion order; string and integer keys are distinct.
struct PickleDict {
  std::vector<std::pair<PickleValue, PickleValue>> items;
  bool ordered = false;  ///< OrderedDict

  /// nullptr if there is no such string key.
  const PickleValue* find(std::string_view key) const;
};

/// An object of a TorchScript class, as data.pkl of a TorchScript file holds them (only with
/// UnpickleOptions::script_classes), or of a class of UnpickleOptions::records.
struct PickleObject {
  std::string class_name;         ///< `__torch__.torchvision.models.resnet.ResNet`
  std::vector<PickleValue> args;  ///< of its construction; an enum has its value here
  /// A dict of attributes, the items of a class that is a dict, or what `__getstate__` gave; None if there is none.
  PickleValue state;
};

/// The type of a value in words: None, bool, int, float, str, Tensor, list, tuple, dict …
std::string_view type_name(const PickleValue& value);

}  // namespace tl

#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tensor/tensor_ref.h"

namespace tl {

/// A tensor whose parts are at hand: views of mapped files, or blocks of memory that they own.
class StoredTensor : public TensorRef {
 public:
  StoredTensor(TensorKind kind, std::vector<TensorPart> parts) : kind_(kind), parts_(std::move(parts)) {}
  TensorKind kind() const override { return kind_; }
  std::vector<TensorPart> to_host() const override { return parts_; }

 private:
  TensorKind kind_;
  std::vector<TensorPart> parts_;
};

/// A strided tensor as a TensorRef.
inline TensorRefPtr stored_tensor(HostTensor tensor) {
  std::vector<TensorPart> parts;
  parts.push_back({"", std::move(tensor)});
  return std::make_shared<StoredTensor>(TensorKind::kStrided, std::move(parts));
}

}  // namespace tl

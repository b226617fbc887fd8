#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/compare.h"

namespace tl::compare {

/// Wide enough for every 64-bit integer and for the squares of all doubles.
using Exact = long double;

/// An element as a complex number; the imaginary part of a real one is 0.
struct ExactValue {
  Exact real = 0;
  Exact imaginary = 0;
};

/// One tensor of a comparison as a row of packed elements and the values they stand for.
class Side {
 public:
  /// Throws Error(kFileDamaged) if the quantiser does not fit the tensor. Both are borrowed.
  Side(const HostTensor& tensor, const Quantiser* quantiser);

  DType dtype() const { return tensor_.dtype; }
  const Quantiser* quantiser() const { return quantiser_; }
  /// All values are floats.
  bool narrow() const;
  bool complex() const { return is_complex(tensor_.dtype); }
  /// 64-bit integers, which doubles do not always hold.
  bool wide_integers() const;

  /// `count` packed row-major elements from `begin` on, valid until the next call; calls go forward.
  std::span<const std::byte> block(std::int64_t begin, std::size_t count);

  /// The values of a block: floats if narrow(), doubles if not complex().
  void decode(std::int64_t begin, std::span<const std::byte> bytes, std::span<float> values) const;
  void decode(std::int64_t begin, std::span<const std::byte> bytes, std::span<double> values) const;
  void decode(std::int64_t begin, std::span<const std::byte> bytes, std::span<ExactValue> values) const;

 private:
  void dequantise(std::int64_t begin, std::span<double> values) const;

  const HostTensor& tensor_;
  const Quantiser* quantiser_;
  std::int64_t inner_ = 1;  ///< elements of one channel in a row
  std::int64_t channels_ = 1;
  bool packed_;
  std::vector<std::byte> copied_;  ///< elements from copied_begin_ on, of a tensor with gaps
  std::int64_t copied_begin_ = 0;
  std::int64_t copied_end_ = 0;
};

bool same_quantiser(const Quantiser* a, const Quantiser* b);

/// Dtypes that TensorComparison::max_ulp is for.
bool has_ulp(DType dtype);

}  // namespace tl::compare

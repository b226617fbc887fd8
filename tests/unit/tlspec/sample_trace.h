#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace tl::test {

/// A payload of the sample: the tensor, its facts, and the bytes that must come back, packed row-major.
struct SamplePayload {
  std::string name;
  TensorKind kind = TensorKind::kStrided;
  std::vector<TensorPart> parts;  ///< empty: no bytes were kept
  DType dtype = DType::kF32;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  PayloadEncoding encoding = PayloadEncoding::kDense;  ///< how it must be stored
};

/// One payload of every layout and element type that needs care.
std::vector<SamplePayload> sample_payloads();

/// A small finished recording with rows in every table: an input, one operation a payload (the last two are passes of
/// one Layer), a buffer, an output; `seed` goes into run.seed.
Trace make_sample_trace(std::int64_t seed = 7);

/// The elements of a tensor in row-major order, gathered index by index.
std::vector<std::byte> gather(const HostTensor& tensor);

/// Every column of every table, the pools, args and timing are equal; payloads.encoding, offset and shard are not
/// compared.
void expect_equal_columns(const Trace& got, const Trace& expected);

/// Every payload of `got` has the bytes, dtype, sizes and parts of the one in `expected`.
void expect_equal_payloads(const Trace& got, const Trace& expected);

/// Reads every row through the accessors of trace/trace.h and every payload; returns a number that depends on all of
/// them.
std::size_t walk(const Trace& trace);

}  // namespace tl::test

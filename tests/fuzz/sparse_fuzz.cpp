// A sparse recording: columns and statistics in one file. What the checks let pass must go through every step of
// postprocess.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>

#include "analysis/summary.h"
#include "core/file_descriptor.h"
#include "fuzz_input.h"
#include "postprocess/pipeline.h"
#include "tlspec/column_checks.h"
#include "tlspec/column_file.h"
#include "tlspec/payload_encoding.h"
#include "tlspec/sparse_checks.h"
#include "tlspec/statistics_file.h"
#include "tlspec/stats_jsonl.h"
#include "trace/text.h"

namespace {

constexpr std::size_t kLengthBytes = 8;

/// The facts of the rows of payloads, without bytes.
class Facts : public tl::PayloadSource {
 public:
  explicit Facts(const tl::Trace& trace) : rows_(trace.payloads), shapes_(trace.shapes) {}
  std::size_t size() const override { return rows_.first_op.size(); }
  tl::PayloadFacts facts(tl::PayloadId id) const override {
    const auto row = id.index();
    return {.kind = tl::kind_of(static_cast<tl::PayloadEncoding>(rows_.encoding[row])),
            .dtype = static_cast<tl::DType>(rows_.dtype[row]),
            .storage = row + 1,
            .offset = rows_.offset[row],
            .sizes = shapes_[rows_.shape[row]],
            .strides = shapes_[rows_.strides[row]]};
  }
  tl::TensorRefPtr tensor(tl::PayloadId) const override { return nullptr; }

 private:
  tl::PayloadsTable rows_;
  tl::ShapePool shapes_;
};

void finish(const std::string& path) {
  tl::Trace mapped;
  tl::read_columns(path, mapped);
  tl::check_columns(mapped, tl::ErrorCode::kFileDamaged, "columns", true);
  tl::read_statistics(path, mapped);
  const auto shapes = mapped.shapes.size();
  tl::SparseRecording recording{mapped, shapes};  // a copy owns its rows
  tl::check_sparse(recording, tl::ErrorCode::kFileDamaged, "columns");
  recording.trace.payload_source = std::make_shared<Facts>(recording.trace);
  const auto trace = tl::finish_sparse(std::move(recording));
  tl::summarise(trace);
  tl::to_text(trace);
  for (std::size_t row = 0; row < trace.statistics.size(); ++row) tl::statistics_text(trace, row);
}

[[maybe_unused]] std::size_t header_end(const std::uint8_t* data, std::size_t size) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes && i < size; ++i) length |= std::uint64_t{data[i]} << (8 * i);
  return size < kLengthBytes || length > size - kLengthBytes ? 0 : kLengthBytes + static_cast<std::size_t>(length);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const tl::FileDescriptor file(::memfd_create("sparse", MFD_CLOEXEC));
  if (!file.valid() || ::write(file.get(), data, size) != static_cast<ssize_t>(size)) std::abort();
  tl::fuzz::answers([&] { finish("/proc/self/fd/" + std::to_string(file.get())); });
  return 0;
}

#ifdef TL_WITH_LIBFUZZER
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

/// Most mutations change numbers in place and keep the header.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  std::minstd_rand random(seed);
  const std::size_t begin = header_end(data, size);
  if (begin == 0 || begin >= size || random() % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::size_t at = begin + random() % (size - begin);
  const std::size_t room = std::min<std::size_t>(size - at, 16);
  LLVMFuzzerMutate(data + at, room, room);
  return size;
}
#endif

// columns.safetensors of a recording: what the checks let pass is walked by all that reads a Trace. Most mutations keep
// the header and change numbers in place, since that is where the checks of the columns are.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>

#include "analysis/summary.h"
#include "core/file_descriptor.h"
#include "fuzz_input.h"
#include "tlspec/column_checks.h"
#include "tlspec/column_file.h"
#include "trace/invariants.h"
#include "trace/text.h"

namespace {

constexpr std::size_t kLengthBytes = 8;

void walk(const tl::Trace& trace) {
  tl::check_invariants(trace);
  tl::summarise(trace);
  tl::to_text(trace);
  tl::column_counts(trace);
}

[[maybe_unused]] std::size_t header_end(const std::uint8_t* data, std::size_t size) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes && i < size; ++i) length |= std::uint64_t{data[i]} << (8 * i);
  return size < kLengthBytes || length > size - kLengthBytes ? 0 : kLengthBytes + static_cast<std::size_t>(length);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const tl::FileDescriptor file(::memfd_create("columns", MFD_CLOEXEC));
  if (!file.valid() || ::write(file.get(), data, size) != static_cast<ssize_t>(size)) std::abort();
  tl::fuzz::answers([&] {
    tl::Trace trace;
    tl::read_columns("/proc/self/fd/" + std::to_string(file.get()), trace);
    tl::check_columns(trace, tl::ErrorCode::kFileDamaged, "columns");
    walk(trace);
  });
  return 0;
}

#ifdef TL_WITH_LIBFUZZER
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

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

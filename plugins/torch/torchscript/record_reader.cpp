#include "torchscript/record_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "core/error.h"

namespace tl::lt {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBlock = std::size_t{1} << 20;  // stays in the second-level cache between the two touches

/// Maps the pages of a block that is about to be written all at once instead of by a fault each. Linux 5.14 and later;
/// elsewhere they are mapped as they are touched.
void map_pages(char* block, std::size_t size) {
#ifdef MADV_POPULATE_WRITE
  const auto begin = reinterpret_cast<std::uintptr_t>(block);
  const auto first = (begin + kPage - 1) / kPage * kPage;
  const auto last = (begin + size) / kPage * kPage;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_POPULATE_WRITE);
#else
  static_cast<void>(block), static_cast<void>(size);
#endif
}

}  // namespace

RecordReader::RecordReader(const std::filesystem::path& path, std::size_t size, const ZipDirectory& zip)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), size_(size) {
  struct stat status {};
  if (!file_.valid() || ::fstat(file_.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) != size) {
    throw Error(ErrorCode::kFileMissing, path.string() + ": changed while it was read");
  }
  for (const auto& entry : zip.entries()) {
    if (entry.method == ZipMethod::kStored && entry.size != 0) stored_at_.emplace(entry.data_offset, &entry);
  }
}

size_t RecordReader::read(uint64_t pos, void* buf, size_t n, const char* /*what*/) const {
  size_t done = 0;
  while (done < n) {
    auto* block = static_cast<char*>(buf) + done;
    const auto size = std::min(n - done, kBlock);
    if (n >= 2 * kBlock) map_pages(block, size);
    const auto got = ::pread(file_.get(), block, size, static_cast<off_t>(pos + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  const std::lock_guard lock(mutex_);
  reads_.insert_or_assign(buf, Read{pos, done});
  return done;
}

const ZipEntry* RecordReader::entry_of(const at::Tensor& tensor) const {
  const bool plain = tensor.layout() == at::kStrided && !tensor.is_quantized() && !tensor.is_conj() &&
                     !tensor.is_neg() && tensor.is_contiguous() && tensor.has_storage();
  if (!plain || tensor.storage_offset() != 0 || tensor.nbytes() != tensor.storage().nbytes()) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto read = reads_.find(tensor.storage().data());
  if (read == reads_.end()) return nullptr;
  const auto entry = stored_at_.find(read->second.offset);
  const bool whole =
      entry != stored_at_.end() && entry->second->size == read->second.size && read->second.size == tensor.nbytes();
  return whole ? entry->second : nullptr;
}

}  // namespace tl::lt

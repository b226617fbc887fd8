#include "core/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace tl {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 18;

std::atomic<int> operations_to_fault{0};

}  // namespace

void set_write_fault(int nth_operation) { operations_to_fault = nth_operation; }

bool write_fault_due() {
  int left = operations_to_fault.load();
  while (left > 0 && !operations_to_fault.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 1) errno = ENOSPC;
  return left == 1;
}

void throw_output_failed(const std::filesystem::path& path, int error_number) {
  std::string hint;
  if (error_number == ENOSPC || error_number == EDQUOT) hint = "free some space, or write elsewhere with -o";
  if (error_number == EROFS || error_number == EACCES || error_number == EPERM) hint = "write elsewhere with -o";
  if (error_number == ENOENT) hint = "create the directory first, or write elsewhere with -o";
  throw Error(ErrorCode::kOutputFailed,
              "cannot write " + path.string() + ": " + std::generic_category().message(error_number), hint);
}

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  if (!write_fault_due()) fd_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd_.valid()) throw_output_failed(path_, errno);
}

void OutputFile::append(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() > kBufferBytes / 2) {
    flush();
    write_all(written_, bytes);
    written_ += bytes.size();
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void OutputFile::append(std::string_view text) { append(std::as_bytes(std::span(text))); }

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  TL_CHECK(offset <= tell() && bytes.size() <= tell() - offset, "a write before the end of the file");
  flush();
  write_all(offset, bytes);
}

void OutputFile::flush() {
  write_all(written_, buffer_);
  written_ += buffer_.size();
  buffer_.clear();
}

void OutputFile::close() {
  flush();
  if (write_fault_due() || ::fsync(fd_.get()) != 0) throw_output_failed(path_, errno);
  if (::close(fd_.release()) != 0) throw_output_failed(path_, errno);
}

void OutputFile::write_all(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (write_fault_due()) throw_output_failed(path_, errno);
    const ssize_t done = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw_output_failed(path_, errno);
    offset += static_cast<std::uint64_t>(done);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  OutputFile file(path);
  file.append(bytes);
  file.close();
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  write_file(path, std::as_bytes(std::span(text)));
}

}  // namespace tl

#include "core/atomic_dir.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

std::string temp_prefix(const fs::path& target) { return "." + target.filename().string() + ".tmp-"; }

std::string random_suffix() {
  static constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device device;
  std::string out;
  for (int i = 0; i < 8; ++i) out += kLetters[device() % kLetters.size()];
  return out;
}

/// Opens a directory and takes its lock; not valid if another process holds it.
FileDescriptor lock_directory(const fs::path& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return FileDescriptor();
  return fd;
}

/// True for names `<prefix><pid>-<random>` whose process is gone.
bool is_leftover_name(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || pid <= 0 || end == name.data() + name.size() || *end != '-') return false;
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

void sync_path(const fs::path& path) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid() || write_fault_due() || ::fsync(fd.get()) != 0) throw_output_failed(path, errno);
}

/// Files before the directories that name them.
void sync_tree(const fs::path& directory) {
  std::vector<fs::path> directories{directory};
  for (std::size_t i = 0; i < directories.size(); ++i) {
    std::error_code error;
    fs::directory_iterator it(directories[i], error);
    for (; !error && it != fs::directory_iterator(); it.increment(error)) {
      const fs::file_type type = it->symlink_status(error).type();
      if (type == fs::file_type::directory) directories.push_back(it->path());
      if (type == fs::file_type::regular) sync_path(it->path());
    }
    if (error) throw_output_failed(directories[i], error.value());
  }
  for (auto it = directories.rbegin(); it != directories.rend(); ++it) sync_path(*it);
}

int rename_with_flags(const fs::path& from, const fs::path& to, unsigned flags) {
  if (write_fault_due()) return errno;
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0 ? 0 : errno;
}

bool exists_at_all(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

/// File systems without the flags of renameat2 (some network and user-space ones) answer EINVAL; there the exchange is
/// two renames, and a kill between them leaves the old output under `aside`, which no sweep touches.
int move_without_flags(const fs::path& temp, const fs::path& target, const fs::path& aside, bool replace) {
  if (exists_at_all(target)) {
    if (!replace) return EEXIST;
    if (::rename(target.c_str(), aside.c_str()) != 0) return errno;
  }
  if (::rename(temp.c_str(), target.c_str()) == 0) return 0;
  const int error = errno;
  if (replace) ::rename(aside.c_str(), target.c_str());
  return error;
}

void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace

AtomicDirectoryWriter::AtomicDirectoryWriter(fs::path target, bool force, std::string marker)
    : shown_(std::move(target)), marker_(std::move(marker)), force_(force) {
  std::error_code error;
  target_ = fs::absolute(shown_, error).lexically_normal();
  if (!target_.has_filename()) target_ = target_.parent_path();
  if (error || !target_.has_filename()) throw Error(ErrorCode::kOutputFailed, "cannot write " + shown_.string());
  refuse_existing();
  sweep_leftovers();
  make_temp();
}

AtomicDirectoryWriter::~AtomicDirectoryWriter() {
  if (!committed_) remove_quietly(temp_);
}

void AtomicDirectoryWriter::refuse_existing() const {
  if (!exists_at_all(target_)) return;
  if (!force_) {
    throw Error(ErrorCode::kOutputExists, shown_.string() + " exists",
                "pass --force to replace it, or -o to write elsewhere");
  }
  std::error_code error;
  const bool replaceable = fs::is_directory(target_, error) &&
                           (fs::is_empty(target_, error) || marker_.empty() || fs::exists(target_ / marker_, error));
  if (!replaceable) {
    throw Error(ErrorCode::kOutputExists,
                shown_.string() + " exists and is not a recording, so --force does not replace it",
                "write elsewhere with -o", "a recording is a directory with a " + marker_);
  }
}

void AtomicDirectoryWriter::make_temp() {
  for (int attempt = 0; attempt < 16; ++attempt) {
    temp_ = temporary_sibling(target_);
    if (!write_fault_due() && ::mkdir(temp_.c_str(), 0777) == 0) {
      lock_ = lock_directory(temp_);
      return;
    }
    if (errno != EEXIST) break;
  }
  throw_output_failed(shown_, errno);
}

void AtomicDirectoryWriter::sweep_leftovers() const {
  const std::string prefix = temp_prefix(target_);
  std::error_code error;
  for (fs::directory_iterator it(target_.parent_path(), error), end; !error && it != end; it.increment(error)) {
    if (!is_leftover_name(it->path().filename().string(), prefix)) continue;
    // A process of another container seems dead from here; its lock tells otherwise.
    const FileDescriptor lock = lock_directory(it->path());
    if (lock.valid()) remove_quietly(it->path());
  }
}

fs::path temporary_sibling(const fs::path& target) {
  return target.parent_path() / (temp_prefix(target) + std::to_string(::getpid()) + "-" + random_suffix());
}

void remove_temporaries_of(const fs::path& target, pid_t pid) {
  const std::string prefix = temp_prefix(target) + std::to_string(pid) + "-";
  std::error_code error;
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(prefix)) leftovers.push_back(it->path());
  }
  for (const fs::path& path : leftovers) remove_quietly(path);
}

void AtomicDirectoryWriter::commit() {
  TL_CHECK(!committed_, "commit is called once");
  sync_tree(temp_);
  const bool replace = force_ && exists_at_all(target_);
  if (replace) refuse_existing();
  int error = rename_with_flags(temp_, target_, replace ? RENAME_EXCHANGE : RENAME_NOREPLACE);
  if (error == EINVAL || error == ENOSYS) {
    const fs::path aside = target_.parent_path() / ("." + target_.filename().string() + ".old-" + random_suffix());
    error = move_without_flags(temp_, target_, aside, replace);
    if (error == 0) remove_quietly(aside);
  }
  if (error == EEXIST) {
    throw Error(ErrorCode::kOutputExists, shown_.string() + " appeared while the recording was made",
                "pass --force to replace it, or -o to write elsewhere");
  }
  if (error != 0) throw_output_failed(shown_, error);
  committed_ = true;
  if (replace) remove_quietly(temp_);
  const FileDescriptor parent(::open(target_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.valid()) ::fsync(parent.get());
}

}  // namespace tl

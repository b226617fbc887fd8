#include "tlspec/foreign_files.h"

#include <algorithm>
#include <cctype>
#include <system_error>

#include "core/error.h"
#include "core/text.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFiles = 100'000;

std::string shown(std::string_view name) { return "'" + elide(escape_for_terminal(name), 80) + "'"; }

bool is_plain_part(std::string_view part) {
  if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
  return std::ranges::none_of(part, [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '\\'; });
}

/// Takes the run of digits at `at` and returns it without leading zeros.
std::string_view take_digits(std::string_view text, std::size_t& at) {
  const auto begin = at;
  while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0) ++at;
  auto run = text.substr(begin, at - begin);
  while (run.size() > 1 && run.front() == '0') run.remove_prefix(1);
  return run;
}

void list_into(const fs::path& directory, const fs::path& prefix, int depth, std::vector<fs::path>& files) {
  std::error_code error;
  std::vector<fs::path> directories;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const auto name = it->path().filename();
    if (name.string().starts_with('.')) continue;
    const auto status = it->symlink_status(error);
    if (error) break;
    if (fs::is_directory(status)) {
      directories.push_back(name);
    } else if (fs::is_regular_file(status)) {
      files.push_back(prefix / name);
    } else {
      throw Error(ErrorCode::kFileHostile, it->path().string() + ": is no regular file");
    }
    if (files.size() + directories.size() > kMaxFiles) {
      throw Error(ErrorCode::kFileLimits,
                  directory.string() + ": holds more than " + std::to_string(kMaxFiles) + " files");
    }
  }
  if (error) throw Error(ErrorCode::kFileMissing, directory.string() + ": " + error.message());
  if (depth == 0) return;
  for (const auto& name : directories) list_into(directory / name, prefix / name, depth - 1, files);
}

}  // namespace

bool natural_less(std::string_view left, std::string_view right) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < left.size() && j < right.size()) {
    const bool digits = std::isdigit(static_cast<unsigned char>(left[i])) != 0 &&
                        std::isdigit(static_cast<unsigned char>(right[j])) != 0;
    if (digits) {
      const auto a = take_digits(left, i);
      const auto b = take_digits(right, j);
      if (a.size() != b.size()) return a.size() < b.size();
      if (a != b) return a < b;
    } else {
      if (left[i] != right[j]) return static_cast<unsigned char>(left[i]) < static_cast<unsigned char>(right[j]);
      ++i;
      ++j;
    }
  }
  const auto rest_left = left.size() - i;
  const auto rest_right = right.size() - j;
  return rest_left != rest_right ? rest_left < rest_right : left < right;
}

bool in_order_of_execution(std::string_view left, std::string_view right) {
  while (true) {
    const auto left_end = left.find('.');
    const auto right_end = right.find('.');
    const auto a = left.substr(0, left_end);
    const auto b = right.substr(0, right_end);
    if (a != b) return natural_less(a, b);
    if (left_end == std::string_view::npos || right_end == std::string_view::npos) {
      return left_end != std::string_view::npos;  // what goes on is inside, and before
    }
    left.remove_prefix(left_end + 1);
    right.remove_prefix(right_end + 1);
  }
}

fs::path file_within(const fs::path& directory, std::string_view relative, std::size_t max_parts) {
  auto path = directory;
  std::size_t parts = 0;
  for (std::size_t begin = 0; begin <= relative.size();) {
    const auto end = std::min(relative.find('/', begin), relative.size());
    const auto part = relative.substr(begin, end - begin);
    if (!is_plain_part(part) || ++parts > max_parts) {
      throw Error(ErrorCode::kFileHostile,
                  directory.string() + ": names the file " + shown(relative) + ", which is no plain path below it");
    }
    path /= part;
    std::error_code error;
    const auto status = fs::symlink_status(path, error);
    const bool last = end == relative.size();
    if (!fs::exists(status)) {
      throw Error(ErrorCode::kFileDamaged, directory.string() + ": the file " + shown(relative) + " is missing");
    }
    if (last ? !fs::is_regular_file(status) : !fs::is_directory(status)) {
      throw Error(ErrorCode::kFileHostile, path.string() + ": is no regular " + (last ? "file" : "directory"));
    }
    begin = end + 1;
  }
  return path;
}

std::vector<fs::path> files_in(const fs::path& directory, int depth) {
  std::vector<fs::path> files;
  list_into(directory, {}, depth, files);
  std::ranges::sort(files, [](const fs::path& a, const fs::path& b) { return natural_less(a.string(), b.string()); });
  return files;
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace tl

#include "core/memory.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace tl {
namespace {

/// The number in the file `name` of a group, or of the mount itself: inside a container the group's path may not be
/// seen.
std::optional<std::uint64_t> number_in(const std::string& mount, const std::string& group, const std::string& name) {
  for (const auto& path : {mount + group + "/" + name, mount + "/" + name}) {
    std::ifstream file(path);
    std::uint64_t value = 0;
    if (file >> value) return value;
  }
  return std::nullopt;
}

/// Bytes that a field of /proc/meminfo states.
std::optional<std::uint64_t> meminfo(const std::string& field) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::string rest;
  std::uint64_t kilobytes = 0;
  while (file >> name >> kilobytes) {
    if (name == field + ":") return kilobytes * 1024;
    std::getline(file, rest);
  }
  return std::nullopt;
}

/// The path of the process's group below the mount of a hierarchy: `0::/a/b` of version 2, `5:memory:/a/b` of
/// version 1.
std::string group_path(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto names = line.substr(first + 1, second - first - 1);
    if (names == controller) return line.substr(second + 1);
  }
  return "/";
}

}  // namespace

std::size_t available_memory() {
  auto left = std::numeric_limits<std::uint64_t>::max();
  if (const auto available = meminfo("MemAvailable")) left = *available;
  const std::string two = "/sys/fs/cgroup";
  const std::string one = "/sys/fs/cgroup/memory";
  const std::pair<std::optional<std::uint64_t>, std::optional<std::uint64_t>> groups[] = {
      {number_in(two, group_path(""), "memory.max"), number_in(two, group_path(""), "memory.current")},
      {number_in(one, group_path("memory"), "memory.limit_in_bytes"),
       number_in(one, group_path("memory"), "memory.usage_in_bytes")}};
  for (const auto& [limit, used] : groups) {
    if (limit && used) left = std::min(left, *limit > *used ? *limit - *used : 0);
  }
  return left == std::numeric_limits<std::uint64_t>::max() ? 0 : static_cast<std::size_t>(left);
}

}  // namespace tl

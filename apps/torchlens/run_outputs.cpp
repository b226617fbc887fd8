#include "run_outputs.h"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <unordered_set>

#include "core/atomic_dir.h"
#include "core/escape.h"
#include "core/output_file.h"
#include "tensor/safetensors_writer.h"
#include "tensor/statistics.h"
#include "tlspec/payload_encoding.h"

namespace tl::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLeastClasses = 10;
constexpr std::size_t kTop = 5;

bool looks_like_classes(const HostTensor& tensor) {
  return is_floating(tensor.dtype) && !tensor.sizes.empty() && tensor.sizes.back() >= kLeastClasses &&
         tensor.numel() == tensor.sizes.back();
}

IoRecord record_of(const OutputValue& output, bool with_values) {
  IoRecord record;
  record.role = output.role;
  if (output.tensor == nullptr) {
    record.scalar = output.scalar;
    return record;
  }
  const auto parts = output.tensor->to_host();
  if (parts.empty()) {
    record.scalar = "a tensor without bytes";
    return record;
  }
  const auto& tensor = parts.front().tensor;
  record.dtype = tensor.dtype;
  record.sizes = tensor.sizes;
  if (!with_values || output.tensor->kind() == TensorKind::kSparse) return record;
  if (const auto stats = compute_stats(tensor); stats.has_finite()) {
    record.min = stats.min;
    record.max = stats.max;
  }
  if (looks_like_classes(tensor)) record.top = top_k(tensor, kTop);
  return record;
}

std::vector<TensorPart> parts_to_write(const TensorRef& tensor) {
  if (tensor.kind() == TensorKind::kStrided) {
    auto parts = tensor.to_host();
    const bool named = std::ranges::all_of(
        parts, [](const TensorPart& part) { return !dtype_info(part.tensor.dtype).safetensors_name.empty(); });
    if (named) return parts;
  }
  return encode_payload(tensor).parts;
}

/// Removes the file unless it was moved into place.
class TemporaryFile {
 public:
  explicit TemporaryFile(fs::path path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    std::error_code error;
    if (!moved_) fs::remove(path_, error);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const fs::path& path() const { return path_; }
  void move_to(const fs::path& target) {
    if (std::rename(path_.c_str(), target.c_str()) != 0) throw_output_failed(target, errno);
    moved_ = true;
  }

 private:
  fs::path path_;
  bool moved_ = false;
};

}  // namespace

std::vector<IoRecord> output_records(const std::vector<OutputValue>& outputs, const Capture& capture) {
  std::unordered_set<std::string_view> meaningless;
  for (const auto& output : capture.outputs) {
    if (output.uninitialised) meaningless.insert(output.role);
  }
  std::vector<IoRecord> records;
  records.reserve(outputs.size());
  for (const auto& output : outputs) records.push_back(record_of(output, !meaningless.contains(output.role)));
  return records;
}

void save_outputs(const std::vector<OutputValue>& outputs, const fs::path& target) {
  std::size_t name_bytes = 0;
  for (const auto& output : outputs) name_bytes += escape_invalid_utf8(output.role).size() + 16;
  TemporaryFile file(temporary_sibling(target));
  SafetensorsWriter writer(file.path(), SafetensorsWriter::header_space(3 * outputs.size(), name_bytes));
  for (const auto& output : outputs) {
    if (output.tensor == nullptr) continue;
    const auto name = escape_invalid_utf8(output.role);  // the format wants UTF-8, the keys of a dict are any bytes
    for (const auto& part : parts_to_write(*output.tensor)) writer.add(name + part.suffix, part.tensor);
  }
  writer.finish();
  file.move_to(target);
}

}  // namespace tl::cli

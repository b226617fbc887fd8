#include "tlspec/tensors_check.h"

#include <libdeflate.h>

#include <array>
#include <charconv>
#include <string>
#include <system_error>

#include "archive/json_tape.h"
#include "core/digest.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "tlspec/foreign.h"
#include "tlspec/foreign_files.h"
#include "tlspec/foreign_json.h"
#include "tlspec/manifest.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void differs(const fs::path& path, const std::string& what, const std::string& is,
                          const std::string& stated) {
  throw Error(ErrorCode::kFileDamaged,
              path.string() + ": has the " + what + " " + is + ", manifest.json says " + stated +
                  ": values that differ may be damage, so nothing is said of the model",
              "record it again, or copy it again from where it came");
}

std::string hex(std::uint32_t value) {
  std::array<char, 8> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, 16).ptr;
  const std::string digits(buffer.data(), end);
  return std::string(8 - digits.size(), '0') + digits;
}

void check_trace(const fs::path& recording, const std::set<std::int64_t>& shards) {
  const auto manifest = read_manifest(recording);
  for (const auto shard : shards) {
    const auto* file = manifest.find_file(shard_name(shard));
    if (file == nullptr) continue;
    const auto mapped = MappedFile::open(recording / file->name);
    const auto digest = digest_hex(mapped->bytes());
    if (digest != file->digest) {
      differs(mapped->path(), "digest", digest, elide(escape_for_terminal(file->digest), 32));
    }
  }
}

/// CRC-32 of what stands behind the header of a safetensors file.
std::uint32_t crc_of_data(const fs::path& path) {
  const auto mapped = MappedFile::open(path);
  const auto bytes = mapped->bytes();
  std::uint64_t header = 0;
  for (std::size_t i = 0; i < 8 && i < bytes.size(); ++i) {
    header |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  if (bytes.size() < 8 || header > bytes.size() - 8) {
    throw Error(ErrorCode::kFileDamaged, path.string() + ": has no room for its header");
  }
  const auto data = bytes.subspan(8 + static_cast<std::size_t>(header));
  return libdeflate_crc32(0, data.data(), data.size());
}

void check_dump(const fs::path& recording) {
  const auto file = MappedFile::open(file_within(recording, kManifestFile));
  const JsonTape tape(text_of(*file), file->path().string(), kForeignJsonLimits);
  for (const auto& record : ForeignObject(tape, tape.root(), "the manifest").objects("files")) {
    const auto stated = record.integer("data_crc32");
    if (!stated) continue;
    const auto path = file_within(recording, record.string("name"));
    const auto crc = crc_of_data(path);
    if (static_cast<std::int64_t>(crc) != *stated) {
      differs(path, "checksum", hex(crc), hex(static_cast<std::uint32_t>(*stated)));
    }
  }
}

}  // namespace

void check_tensors_files(const fs::path& recording, const std::set<std::int64_t>& shards) {
  const auto format = reference_format(recording);
  if (format == ReferenceFormat::kTrace) return check_trace(recording, shards);
  if (format == ReferenceFormat::kRecorderDump) check_dump(recording);
}

}  // namespace tl

#include "archive/exported_layout.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "archive/entry_name.h"

#include "archive/unpickler.h"

namespace tl {
namespace {

constexpr std::string_view kFlatProgram = "serialized_exported_program.json";

/// A short entry's text without white space at its end; empty if there is none.
std::string small_text(const ZipDirectory& zip, const std::string& name) {
  constexpr std::uint64_t kSmall = 64;
  const ZipEntry* entry = zip.find(name);
  if (!entry || entry->size > kSmall) return {};
  std::string text = zip.read_text(*entry);
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  text.erase(last == std::string::npos ? 0 : last + 1);
  return text;
}

}  // namespace

std::string ExportedLayoutNames::program(const std::string& model) const {
  return flat ? std::string(kFlatProgram) : root + "models/" + model + ".json";
}

std::string ExportedLayoutNames::sample_inputs(const std::string& model) const {
  return flat ? "serialized_example_inputs.pt" : root + "data/sample_inputs/" + model + ".pt";
}

std::string ExportedLayoutNames::pickled_weights(const std::string& model) const {
  return flat ? "serialized_state_dict.pt" : weights_folder + model + ".pt";
}

std::string ExportedLayoutNames::pickled_constants(const std::string& model) const {
  return flat ? "serialized_constants.pt" : constants_folder + model + ".pt";
}

Error unsupported_schema(const std::string& where, int major, int minor, const std::string& torch_version) {
  const bool newer = major > kExportedSchemaMajor;
  std::string message = where + ": an exported program of schema " + std::to_string(major) + '.' +
                        std::to_string(minor) + ", schema " + std::to_string(kExportedSchemaMajor) + " is read";
  if (!torch_version.empty()) message += "; it was written by torch " + torch_version;
  return {ErrorCode::kUnsupportedVersion, message,
          newer ? "export again with a release of torch that writes schema 8 (2.6 to 2.13), or update torchlens"
                : "export again with torch 2.6 or later"};
}

ExportedLayoutNames exported_layout(const ZipDirectory& zip) {
  ExportedLayoutNames names;
  if (zip.find(kFlatProgram)) {
    names.flat = true;
    names.models.emplace_back("model");
    return names;
  }
  names.root = archive_root(zip);
  names.weights_folder = names.root + "data/weights/";
  names.constants_folder = names.root + "data/constants/";
  const std::string folder = names.root + "models/";
  constexpr std::string_view kExtension = ".json";
  for (const ZipEntry& entry : zip.entries()) {
    const std::string_view name = entry.name;
    if (!name.starts_with(folder) || !name.ends_with(kExtension) || name.size() <= folder.size() + kExtension.size()) {
      continue;
    }
    names.models.emplace_back(name.substr(folder.size(), name.size() - folder.size() - kExtension.size()));
  }
  std::ranges::sort(names.models);
  return names;
}

void require_readable_layout(const ZipDirectory& zip, const ExportedLayoutNames& names) {
  if (names.flat) {
    const std::string version = small_text(zip, "version");
    int major = 0;
    int minor = 0;
    const char* end = version.data() + version.size();
    const auto read = std::from_chars(version.data(), end, major);
    if (read.ec != std::errc()) return;  // the program states it too
    if (read.ptr != end) std::from_chars(read.ptr + 1, end, minor);
    if (major != kExportedSchemaMajor) throw unsupported_schema(zip.file_name(), major, minor, {});
    return;
  }
  const std::string version = small_text(zip, names.root + "archive_version");
  if (version.empty() || version == "0") return;
  throw Error(ErrorCode::kUnsupportedVersion,
              zip.file_name() + ": a pt2 archive of version " + quoted_name(version) + ", version 0 is read",
              "save it again with the release of torch that this build goes with, 2.13");
}

}  // namespace tl

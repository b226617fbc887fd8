#include "model_screen.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "archive/torchscript_scan.h"
#include "archive/zip_directory.h"
#include "core/digest.h"
#include "core/mapped_file.h"
#include "core/text.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

Json uses_json(const std::vector<ScriptUse>& uses) {
  Json list = Json::array();
  for (const auto& use : uses) {
    list.push_back({{"name", use.name}, {"count", use.count}, {"file", use.file}, {"line", use.line}});
  }
  return list;
}

/// The most used first, as `aten::relu ×17`.
std::string names_text(const Json& uses, std::size_t most) {
  std::vector<std::pair<std::uint64_t, std::string>> names;
  for (const auto& use : uses) names.emplace_back(use["count"].get<std::uint64_t>(), use["name"].get<std::string>());
  std::ranges::stable_sort(names, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) {
    text += (i > 0 ? ", " : "") + names[i].second;
    if (names[i].first > 1) text += " ×" + std::to_string(names[i].first);
  }
  return names.size() > most ? text + ", …" : text;
}

}  // namespace

Json model_screen(const ModelFileInfo& info) {
  Json screen;
  screen["file"] = info.path.filename().string();
  screen["kind"] = to_string(info.kind);
  screen["kind_text"] = describe(info.kind);
  screen["bytes"] = info.size;
  if (!info.version_text.empty()) screen["format_version"] = info.version_text;
  if (!info.archive_version.empty()) screen["archive_version"] = info.archive_version;
  if (!info.models.empty()) screen["models"] = info.models;
  if (!info.foreign_globals.empty()) screen["foreign_globals"] = info.foreign_globals;
  if (!info.detail.empty()) screen["detail"] = info.detail;
  const auto file = MappedFile::open(info.path);
  screen["digest"] = digest_hex(file->bytes());
  if (const auto refusal = refusal_for(info)) {
    screen["refused"] = {{"code", to_string(refusal->code)}, {"message", refusal->message}, {"hint", refusal->hint}};
  }
  if (info.kind != ModelKind::kTorchScript) return screen;
  const auto scan = scan_torchscript(ZipDirectory(file->bytes(), info.path.string(), file));
  screen["source_files"] = scan.source_files;
  screen["source_bytes"] = scan.source_bytes;
  screen["operators"] = uses_json(scan.operators);
  screen["classes"] = uses_json(scan.classes);
  screen["unsafe"] = uses_json(unsafe_uses(scan));
  return screen;
}

void print_model_screen(Output& out, const Json& screen) {
  std::string facts =
      "   " + screen["kind_text"].get<std::string>() + " · " + format_bytes(screen["bytes"].get<std::uint64_t>());
  if (screen.contains("format_version")) facts += " · format version " + screen["format_version"].get<std::string>();
  out.line(Style::kBold, screen["file"].get<std::string>(), facts);
  out.line("  digest     " + screen["digest"].get<std::string>());
  if (screen.contains("models")) out.line("  models     " + screen["models"].dump());
  if (screen.contains("foreign_globals")) out.line("  refers to  " + screen["foreign_globals"].dump());
  if (screen.contains("operators")) {
    out.line("  sources    " + screen["source_files"].dump() + " files, " +
             format_bytes(screen["source_bytes"].get<std::uint64_t>()));
    out.line("  operators  " + std::to_string(screen["operators"].size()) + ": " + names_text(screen["operators"], 12));
    if (!screen["classes"].empty()) out.line("  classes    " + names_text(screen["classes"], 12));
    if (!screen["unsafe"].empty())
      out.line("  unsafe     " + names_text(screen["unsafe"], 12) + "  (run only by --allow-op)");
  }
  if (screen.contains("refused")) {
    out.line(Style::kError, "  cannot be run: ", screen["refused"]["message"].get<std::string>());
    if (const auto hint = screen["refused"]["hint"].get<std::string>(); !hint.empty()) out.line("  hint       " + hint);
  } else {
    out.line("  looked at only: nothing of the file was executed");
  }
}

}  // namespace tl::cli

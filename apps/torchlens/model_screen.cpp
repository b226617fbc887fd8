#include "model_screen.h"

#include <algorithm>
#include <array>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/digest.h"
#include "core/escape.h"
#include "core/text.h"
#include "model_screen_parts.h"
#include "text_format.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWidth = 80;

constexpr std::array kScreenParts = {
    ModelScreenPart{ModelKind::kTorchScript, fill_torchscript, print_torchscript},
    ModelScreenPart{ModelKind::kExportedProgram, fill_exported, print_exported},
    ModelScreenPart{ModelKind::kAotInductor, fill_aot_inductor, print_aot_inductor},
    ModelScreenPart{ModelKind::kLiteInterpreter, fill_lite_interpreter, print_lite_interpreter},
    ModelScreenPart{ModelKind::kStateDict, fill_tensor_file, print_tensor_file},
    ModelScreenPart{ModelKind::kSafetensors, fill_tensor_file, print_tensor_file},
};

const ModelScreenPart* part_of(std::string_view kind) {
  const auto part =
      std::ranges::find(kScreenParts, kind, [](const ModelScreenPart& candidate) { return to_string(candidate.kind); });
  return part == kScreenParts.end() ? nullptr : &*part;
}

std::string base_name(const Json& screen) { return screen["file"].get<std::string>(); }

std::string header_facts(const Json& screen) {
  std::string text = screen["kind_text"].get<std::string>();
  if (screen.contains("traced")) text = screen["traced"].get<bool>() ? "TorchScript trace" : "TorchScript script";
  for (const char* key : {"root_class", "mode", "dtype"}) {
    if (const auto value = screen.value(key, std::string()); !value.empty()) {
      text += " · " + (std::string_view(key) == "root_class" ? value.substr(value.rfind('.') + 1) : value);
    }
  }
  return text + " · " + format_bytes(screen["bytes"].get<std::uint64_t>());
}

void print_facts(Output& out, const Json& screen) {
  std::vector<std::string> facts = {"digest " + screen["digest"].get<std::string>()};
  if (screen.contains("format_version"))
    facts.push_back("format version " + screen["format_version"].get<std::string>());
  if (screen.contains("archive_version")) {
    facts.push_back("archive version " + screen["archive_version"].get<std::string>());
  }
  if (screen.contains("entries")) facts.push_back(std::to_string(screen["entries"].get<std::size_t>()) + " entries");
  if (facts.size() > 1 && screen.value("checksums", "") == "good") facts.push_back("checksums good");
  print_items(out, "file", facts);
  if (screen.contains("models") && screen["models"].size() > 1)
    print_items(out, "models", screen["models"].get<std::vector<std::string>>());
  if (screen.contains("foreign_globals")) {
    print_items(out, "refers to", screen["foreign_globals"].get<std::vector<std::string>>());
  }
}

/// Pieces one after the other, broken between them at the width of a screen; later lines begin at `indent`.
void print_wrapped(Output& out, Style style, const std::string& name, std::size_t indent,
                   const std::vector<std::string>& pieces) {
  std::string line;
  std::string head = name;
  std::size_t used = display_width(head);
  for (const auto& piece : pieces) {
    const std::string text = escape_for_terminal(piece);
    if (!line.empty() && used + 1 + display_width(text) > kWidth) {
      out.line(style, head, line);
      head = std::string(indent, ' ');
      used = indent;
      line.clear();
    }
    used += display_width(text) + (line.empty() ? 0 : 1);
    line += (line.empty() ? "" : " ") + text;
  }
  out.line(style, head, line);
}

std::vector<std::string> split_behind(const std::string& text, char separator) {
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find(separator, begin), text.size());
    pieces.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}

}  // namespace

// By assignment: nlohmann builds a list of pairs out of an initialiser first, and there are thousands of these.
Json totals_json(const TensorTotals& totals) {
  Json json;
  json["tensors"] = totals.tensors;
  json["elements"] = totals.elements;
  json["bytes"] = totals.bytes;
  return json;
}

std::string totals_text(const Json& totals) {
  return counted(totals["tensors"].get<std::int64_t>(), "tensor") + ", " +
         format_count(totals["elements"].get<std::uint64_t>()) + " elements, " +
         format_bytes(totals["bytes"].get<std::uint64_t>());
}

void print_items(Output& out, const std::string& name, const std::vector<std::string>& items) {
  std::vector<std::string> pieces;
  for (std::size_t i = 0; i < items.size(); ++i) pieces.push_back(items[i] + (i + 1 < items.size() ? "," : ""));
  print_wrapped(out, Style::kPlain, pad_right(name, kParagraphIndent), kParagraphIndent, pieces);
}

void print_pieces(Output& out, Style style, const std::string& name, const std::vector<std::string>& pieces) {
  print_wrapped(out, style, pad_right(name, kParagraphIndent), kParagraphIndent, pieces);
}

void print_words(Output& out, Style style, const std::string& name, const std::string& text) {
  print_wrapped(out, style, pad_right(name, kParagraphIndent), kParagraphIndent, split_behind(text, ' '));
}

void print_signature(Output& out, const std::string& signature) {
  print_wrapped(out, Style::kPlain, "  ", 6, split_behind(signature, ' '));
}

std::vector<std::string> most_used(const Json& uses, std::size_t most) {
  std::vector<std::pair<std::uint64_t, std::string>> names;
  for (const auto& use : uses) names.emplace_back(use["count"].get<std::uint64_t>(), use["name"].get<std::string>());
  std::ranges::stable_sort(names, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> items;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) {
    items.push_back(names[i].second + (names[i].first > 1 ? " ×" + std::to_string(names[i].first) : ""));
  }
  if (names.size() > most) items.push_back("and " + std::to_string(names.size() - most) + " more");
  return items;
}

Json model_screen(const ModelFileInfo& info, const KnownOperators* known) {
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
  auto digest = std::async(std::launch::async, [&] { return digest_hex(file->bytes()); });
  std::optional<ZipDirectory> zip;
  if (looks_like_zip(file->bytes())) {
    zip.emplace(file->bytes(), info.path.string(), file);
    zip->verify_crc();
    screen["entries"] = zip->entries().size();
    screen["checksums"] = "good";
  }
  screen["digest"] = digest.get();
  if (const auto refusal = refusal_for(info)) {
    screen["refused"] = {{"code", to_string(refusal->code)}, {"message", refusal->message}, {"hint", refusal->hint}};
  }
  if (const auto* part = part_of(to_string(info.kind))) {
    part->fill(screen, {info, file, zip ? &*zip : nullptr, known});
  }
  return screen;
}

void print_model_screen(Output& out, const Json& screen, bool everything) {
  out.line(Style::kBold, escape_for_terminal(base_name(screen)), "   " + escape_for_terminal(header_facts(screen)));
  if (const auto* part = part_of(screen["kind"].get<std::string>())) part->print(out, screen, everything);
  print_facts(out, screen);
  if (screen.contains("refused")) {
    print_words(out, Style::kError, "cannot run", screen["refused"]["message"].get<std::string>());
    if (const auto hint = screen["refused"]["hint"].get<std::string>(); !hint.empty()) {
      print_words(out, Style::kHint, "hint", hint);
    }
  }
  out.line("            looked at only: nothing of the file was executed");
}

}  // namespace tl::cli

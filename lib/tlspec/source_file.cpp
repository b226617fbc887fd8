#include "tlspec/source_file.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tlspec/column_io.h"

namespace tl {
namespace {

/// Strings one behind the other, and where each ends; begins with 0.
struct Joined {
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::uint8_t> bytes;

  void add(std::string_view text) {
    bytes.insert(bytes.end(), text.begin(), text.end());
    offsets.push_back(static_cast<std::int64_t>(bytes.size()));
  }
};

std::vector<std::string> read_joined(const ColumnReader& reader, const std::string& name) {
  const auto offsets = reader.column<std::int64_t>(name + ".offsets");
  const auto bytes = reader.column<std::uint8_t>(name + ".bytes");
  reader.check_offsets(name + ".offsets", offsets.view(), bytes.size());
  std::vector<std::string> texts;
  for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
    texts.emplace_back(bytes.begin() + offsets[row], bytes.begin() + offsets[row + 1]);
  }
  return texts;
}

}  // namespace

SafetensorsWriter::Written write_sources(const std::filesystem::path& path, std::span<const SourceText> sources) {
  Joined files;
  Joined texts;
  std::vector<std::int64_t> first_lines;
  for (const auto& source : sources) {
    files.add(source.file);
    texts.add(source.text);
    first_lines.push_back(source.first_line);
  }
  ColumnList columns;
  columns.add("first_line", std::span<const std::int64_t>(first_lines));
  columns.add("file.offsets", std::span<const std::int64_t>(files.offsets));
  columns.add("file.bytes", std::span<const std::uint8_t>(files.bytes));
  columns.add("text.offsets", std::span<const std::int64_t>(texts.offsets));
  columns.add("text.bytes", std::span<const std::uint8_t>(texts.bytes));
  return columns.write(path);
}

std::vector<SourceText> read_sources(const std::filesystem::path& path) {
  const ColumnReader reader(path);
  const auto first_lines = reader.column<std::int64_t>("first_line");
  auto files = read_joined(reader, "file");
  auto texts = read_joined(reader, "text");
  if (files.size() != first_lines.size() || texts.size() != first_lines.size()) {
    reader.fail("first_line has " + std::to_string(first_lines.size()) + " rows, there are " +
                std::to_string(files.size()) + " files and " + std::to_string(texts.size()) + " texts");
  }
  std::vector<SourceText> sources;
  for (std::size_t row = 0; row < first_lines.size(); ++row) {
    sources.push_back({std::move(files[row]), first_lines[row], std::move(texts[row])});
  }
  return sources;
}

}  // namespace tl

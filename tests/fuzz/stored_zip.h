#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tl::fuzz {

/// Writes a zip archive whose entries are stored, with sizes, offsets and checksums that hold, so that what the fuzzer
/// makes up lies behind the checks of the container.
class StoredZip {
 public:
  void add(const std::string& name, std::string_view data) {
    const auto offset = bytes_.size();
    std::string fields;
    append(fields, 20, 2);  // version needed
    append(fields, 0, 8);   // flags, method, time, date
    append(fields, crc32(data), 4);
    append(fields, data.size(), 4);
    append(fields, data.size(), 4);
    append(fields, name.size(), 2);
    append(fields, 0, 2);  // extra field
    bytes_ += "PK\x03\x04" + fields + name;
    bytes_ += data;
    directory_ += "PK\x01\x02";
    append(directory_, 20, 2);  // version made by
    directory_ += fields;
    append(directory_, 0, 10);  // comment, disk, attributes
    append(directory_, offset, 4);
    directory_ += name;
    ++entries_;
  }

  std::string finish() const {
    std::string archive = bytes_ + directory_ + "PK\x05\x06";
    append(archive, 0, 4);
    append(archive, entries_, 2);
    append(archive, entries_, 2);
    append(archive, directory_.size(), 4);
    append(archive, bytes_.size(), 4);
    append(archive, 0, 2);
    return archive;
  }

 private:
  static void append(std::string& out, std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i, value >>= 8) out += static_cast<char>(value);
  }

  static std::uint32_t crc32(std::string_view data) {
    static const std::array<std::uint32_t, 256> kTable = [] {
      std::array<std::uint32_t, 256> table{};
      for (std::uint32_t i = 0; i < table.size(); ++i) {
        table[i] = i;
        for (int bit = 0; bit < 8; ++bit) table[i] = table[i] >> 1 ^ (table[i] % 2 != 0 ? 0xedb88320 : 0);
      }
      return table;
    }();
    std::uint32_t crc = 0xffffffff;
    for (const char c : data) crc = kTable[(crc ^ static_cast<std::uint8_t>(c)) & 0xff] ^ crc >> 8;
    return ~crc;
  }

  std::string bytes_;
  std::string directory_;
  std::uint64_t entries_ = 0;
};

}  // namespace tl::fuzz

// torchlens recorder: one header that records named tensors of any C++17 runtime into a directory that torchlens reads.
// No dependency but the standard library. Copy it freely.
//
//   #include "torchlens_dump.h"
//
//   torchlens::open("run.tlspec");
//   torchlens::input("x", x.data(), torchlens::f32, {1, 3, 224, 224});
//   torchlens::dump("blocks.0", hidden.data(), torchlens::f32, {1, 197, 768});   // where the value is at hand
//   torchlens::close();
//
// Names that are module addresses of the PyTorch model ("blocks.0.attn") are matched to it without a map. The second
// dump() of a name is its second call. dump() without open() does nothing, so the lines may stay in the program.
// torchlens::Recording is the same as an object, for several recordings or a life of its own.
//
// Elements are taken as they lie in host memory (little-endian); strides, in elements, may be given behind the shape.
// They are written at once: memory stays at one tensor that is not packed. Failures to write throw std::runtime_error.
// The directory is moved into place by close(), so that there is a whole recording or none. Functions are thread-safe.
#ifndef TORCHLENS_DUMP_H
#define TORCHLENS_DUMP_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace torchlens {

/// Element types, by the names that torchlens prints.
enum Dtype : std::uint8_t { f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean, c64, f8_e5m2, f8_e4m3 };

using Shape = std::vector<std::int64_t>;

namespace detail {

struct DtypeRow {
  const char* name;         // as torchlens prints it
  const char* safetensors;  // as the file states it
  std::size_t bytes;
};

inline const DtypeRow& row(Dtype dtype) {
  static const std::array<DtypeRow, 16> rows = {{{"f32", "F32", 4},
                                                 {"f64", "F64", 8},
                                                 {"f16", "F16", 2},
                                                 {"bf16", "BF16", 2},
                                                 {"i8", "I8", 1},
                                                 {"i16", "I16", 2},
                                                 {"i32", "I32", 4},
                                                 {"i64", "I64", 8},
                                                 {"u8", "U8", 1},
                                                 {"u16", "U16", 2},
                                                 {"u32", "U32", 4},
                                                 {"u64", "U64", 8},
                                                 {"bool", "BOOL", 1},
                                                 {"c64", "C64", 8},
                                                 {"f8_e5m2", "F8_E5M2", 1},
                                                 {"f8_e4m3", "F8_E4M3", 1}}};
  return rows.at(dtype);
}

/// The length of the UTF-8 character at the start of [at, end); 0 if there is none.
inline std::size_t utf8_length(const unsigned char* at, const unsigned char* end) {
  const unsigned lead = *at;
  const std::size_t length = lead < 0x80 ? 1 : lead >> 5 == 0x6 ? 2 : lead >> 4 == 0xE ? 3 : lead >> 3 == 0x1E ? 4 : 0;
  if (length == 0 || static_cast<std::size_t>(end - at) < length) return 0;
  unsigned value = length == 1 ? lead : lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (at[i] >> 6 != 0x2) return 0;
    value = value << 6 | (at[i] & 0x3Fu);
  }
  const bool overlong =
      (length == 2 && value < 0x80) || (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  return overlong || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000) ? 0 : length;
}

/// A JSON string; what is no UTF-8 becomes U+FFFD.
inline std::string quoted(const std::string& text) {
  std::string result = "\"";
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = at + text.size();
  while (at != end) {
    const std::size_t length = utf8_length(at, end);
    if (length == 0) {
      result += "\xEF\xBF\xBD";
      ++at;
      continue;
    }
    if (*at == '"' || *at == '\\') {
      result += '\\';
      result += static_cast<char>(*at);
    } else if (*at < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(*at));
      result += code;
    } else {
      result.append(reinterpret_cast<const char*>(at), length);
    }
    at += length;
  }
  return result + '"';
}

inline std::string listed(const Shape& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(values[i]);
  return text + "]";
}

[[noreturn]] inline void fail(const std::string& what) { throw std::runtime_error("torchlens: " + what); }

inline std::size_t count_of(const std::string& name, const Shape& shape) {
  std::size_t count = 1;
  for (const auto size : shape) {
    if (size < 0) fail(name + ": a size of the shape is " + std::to_string(size));
    if (size != 0 && count > (std::size_t{1} << 46) / static_cast<std::size_t>(size))
      fail(name + ": too many elements");
    count *= static_cast<std::size_t>(size);
  }
  return count;
}

/// Copies strided elements into a packed row-major block.
inline void pack(const char* from, std::size_t item, const Shape& shape, const Shape& strides, std::size_t axis,
                 char*& to) {
  if (axis == shape.size()) {
    std::memcpy(to, from, item);
    to += item;
    return;
  }
  for (std::int64_t i = 0; i < shape[axis]; ++i) {
    pack(from + i * strides[axis] * static_cast<std::int64_t>(item), item, shape, strides, axis + 1, to);
  }
}

inline bool is_packed(const Shape& shape, const Shape& strides) {
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

/// XXH3-128 (https://github.com/Cyan4973/xxHash, BSD), seed 0, in portable form: the digest that torchlens has for
/// parameters.
class Xxh3 {
 public:
  static std::string hex(const void* data, std::size_t size) {
    const Xxh3 hash(static_cast<const unsigned char*>(data), size);
    char text[33];
    std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high_),
                  static_cast<unsigned long long>(hash.low_));
    return text;
  }

 private:
  using U = std::uint64_t;
  static constexpr U kA = 0x9E3779B185EBCA87u, kB = 0xC2B2AE3D27D4EB4Fu, kC = 0x165667B19E3779F9u;
  static constexpr U kD = 0x85EBCA77C2B2AE63u, kE = 0x27D4EB2F165667C5u;
  static constexpr U kA32 = 0x9E3779B1u, kB32 = 0x85EBCA77u, kC32 = 0xC2B2AE3Du;

  static const unsigned char* secret() {
    static const unsigned char bytes[] =
        "\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe\x7c\x01\x81\x2c\xf7\x21\xad\x1c\xde\xd4\x6d\xe9\x83\x90\x97\xdb\x72\x40\xa4"
        "\xa4"
        "\xb7\xb3\x67\x1f\xcb\x79\xe6\x4e\xcc\xc0\xe5\x78\x82\x5a\xd0\x7d\xcc\xff\x72\x21\xb8\x08\x46\x74\xf7\x43\x24"
        "\x8e"
        "\xe0\x35\x90\xe6\x81\x3a\x26\x4c\x3c\x28\x52\xbb\x91\xc3\x00\xcb\x88\xd0\x65\x8b\x1b\x53\x2e\xa3\x71\x64\x48"
        "\x97"
        "\xa2\x0d\xf9\x4e\x38\x19\xef\x46\xa9\xde\xac\xd8\xa8\xfa\x76\x3f\xe3\x9c\x34\x3f\xf9\xdc\xbb\xc7\xc7\x0b\x4f"
        "\x1d"
        "\x8a\x51\xe0\x4b\xcd\xb4\x59\x31\xc8\x9f\x7e\xc9\xd9\x78\x73\x64\xea\xc5\xac\x83\x34\xd3\xeb\xc3\xc5\x81\xa0"
        "\xff"
        "\xfa\x13\x63\xeb\x17\x0d\xdd\x51\xb7\xf0\xda\x49\xd3\x16\x55\x26\x29\xd4\x68\x9e\x2b\x16\xbe\x58\x7d\x47\xa1"
        "\xfc"
        "\x8f\xf8\xb8\xd1\x7a\xd0\x31\xce\x45\xcb\x3a\x8f\x95\x16\x04\x28\xaf\xd7\xfb\xca\xbb\x4b\x40\x7e";
    return bytes;
  }
  static U read64(const unsigned char* p) {
    U value;
    std::memcpy(&value, p, 8);
    return value;
  }
  static U read32(const unsigned char* p) {
    std::uint32_t value;
    std::memcpy(&value, p, 4);
    return value;
  }
  static U key(std::size_t at) { return read64(secret() + at); }
  static U swapped(U value, int bytes) {
    U result = 0;
    for (int i = 0; i < bytes; ++i) result = result << 8 | (value >> (8 * i) & 0xFF);
    return result;
  }
  static void multiply(U a, U b, U& low, U& high) {
    const U mask = 0xFFFFFFFFu;
    const U ll = (a & mask) * (b & mask), hl = (a >> 32) * (b & mask), lh = (a & mask) * (b >> 32);
    const U cross = (ll >> 32) + (hl & mask) + lh;
    high = (hl >> 32) + (cross >> 32) + (a >> 32) * (b >> 32);
    low = cross << 32 | (ll & mask);
  }
  static U fold(U a, U b) {
    U low, high;
    multiply(a, b, low, high);
    return low ^ high;
  }
  static U avalanche(U h) {
    h = (h ^ h >> 37) * 0x165667919E3779F9u;
    return h ^ h >> 32;
  }
  static U avalanche64(U h) {
    h = (h ^ h >> 33) * kB;
    h = (h ^ h >> 29) * kC;
    return h ^ h >> 32;
  }
  static U mix(const unsigned char* p, std::size_t at) {
    return fold(read64(p) ^ key(at), read64(p + 8) ^ key(at + 8));
  }
  void mix_two(const unsigned char* first, const unsigned char* second, std::size_t at) {
    low_ = (low_ + mix(first, at)) ^ (read64(second) + read64(second + 8));
    high_ = (high_ + mix(second, at + 16)) ^ (read64(first) + read64(first + 8));
  }

  Xxh3(const unsigned char* p, std::size_t n) {
    if (n <= 16) {
      tiny(p, n);
    } else if (n <= 240) {
      middle(p, n);
    } else {
      large(p, n);
    }
  }
  void tiny(const unsigned char* p, std::size_t n) {
    if (n == 0) {
      low_ = avalanche64(key(64) ^ key(72));
      high_ = avalanche64(key(80) ^ key(88));
    } else if (n <= 3) {
      const U low = U{p[0]} << 16 | U{p[n >> 1]} << 24 | U{p[n - 1]} | U{n} << 8;
      const U turned = swapped(low, 4);
      const U high = (turned << 13 | turned >> 19) & 0xFFFFFFFFu;
      low_ = avalanche64(low ^ read32(secret()) ^ read32(secret() + 4));
      high_ = avalanche64(high ^ read32(secret() + 8) ^ read32(secret() + 12));
    } else if (n <= 8) {
      multiply((read32(p) | read32(p + n - 4) << 32) ^ key(16) ^ key(24), kA + (U{n} << 2), low_, high_);
      high_ += low_ << 1;
      low_ ^= high_ >> 3;
      low_ = (low_ ^ low_ >> 35) * 0x9FB21C651E98DF25u;
      low_ ^= low_ >> 28;
      high_ = avalanche(high_);
    } else {
      U low, high, last = read64(p + n - 8);
      multiply(read64(p) ^ last ^ key(32) ^ key(40), kA, low, high);
      low += U{n - 1} << 54;
      last ^= key(48) ^ key(56);
      high += last + (last & 0xFFFFFFFFu) * (kB32 - 1);
      multiply(low ^ swapped(high, 8), kB, low_, high_);
      high_ += high * kB;
      low_ = avalanche(low_);
      high_ = avalanche(high_);
    }
  }
  void middle(const unsigned char* p, std::size_t n) {
    low_ = n * kA;
    if (n <= 128) {
      for (std::size_t at = 64; at > 0;) {
        at -= 16;
        if (n > 2 * at) mix_two(p + at, p + n - 16 - at, 2 * at);
      }
    } else {
      for (std::size_t at = 0; at < 128; at += 32) mix_two(p + at, p + at + 16, at);
      low_ = avalanche(low_);
      high_ = avalanche(high_);
      for (std::size_t at = 128; at + 32 <= n; at += 32) mix_two(p + at, p + at + 16, at - 125);
      mix_two(p + n - 16, p + n - 32, 103);
    }
    const U mixed = low_ * kA + high_ * kD + n * kB;
    low_ = avalanche(low_ + high_);
    high_ = U{0} - avalanche(mixed);
  }
  static void accumulate(U* sums, const unsigned char* p, std::size_t at) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const U word = read64(p + 8 * lane), keyed = word ^ key(at + 8 * lane);
      sums[lane ^ 1] += word;
      sums[lane] += (keyed & 0xFFFFFFFFu) * (keyed >> 32);
    }
  }
  static U merged(const U* sums, std::size_t at, U start) {
    for (std::size_t i = 0; i < 4; ++i)
      start += fold(sums[2 * i] ^ key(at + 16 * i), sums[2 * i + 1] ^ key(at + 16 * i + 8));
    return avalanche(start);
  }
  void large(const unsigned char* p, std::size_t n) {
    U sums[8] = {kC32, kA, kB, kC, kD, kB32, kE, kA32};
    const std::size_t stripes = (n - 1) / 64;
    for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
      accumulate(sums, p + 64 * stripe, 8 * (stripe % 16));
      if (stripe % 16 != 15) continue;
      for (std::size_t lane = 0; lane < 8; ++lane) {
        sums[lane] = (sums[lane] ^ sums[lane] >> 47 ^ key(128 + 8 * lane)) * kA32;
      }
    }
    accumulate(sums, p + n - 64, 121);
    low_ = merged(sums, 11, n * kA);
    high_ = merged(sums, 117, ~(n * kB));
  }

  U low_ = 0, high_ = 0;
};

/// A safetensors file that grows: room for its header is left at the start.
class TensorFile {
 public:
  TensorFile(std::filesystem::path path, std::size_t room) : path_(std::move(path)), room_(room), header_("{") {
    file_.open(path_, std::ios::binary | std::ios::trunc);
    const std::string space(8 + room_, ' ');
    write(space.data(), space.size());
  }
  bool fits(std::size_t header, std::size_t bytes, std::size_t limit) const {
    return header_.size() == 1 || (header_.size() + header + 8 <= room_ && bytes_ + bytes <= limit);
  }
  void add(const std::string& entry_before_offsets, const char* data, std::size_t bytes) {
    header_ += (header_.size() == 1 ? "" : ",") + entry_before_offsets + "\"data_offsets\":[" + std::to_string(bytes_) +
               "," + std::to_string(bytes_ + bytes) + "]}";
    write(data, bytes);
    bytes_ += bytes;
  }
  /// Writes the header and closes the file; its entry for manifest.json.
  std::string finish() {
    header_ += "}";
    if (header_.size() > room_) fail(path_.filename().string() + ": a name is longer than the header has room for");
    header_.resize(room_, ' ');
    char length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(std::uint64_t{room_} >> (8 * i) & 0xFF);
    file_.seekp(0);
    write(length, 8);
    write(header_.data(), header_.size());
    file_.close();
    if (!file_) fail(path_.string() + ": cannot be written");
    return "{\"name\":" + quoted(path_.filename().string()) + ",\"bytes\":" + std::to_string(8 + room_ + bytes_) + "}";
  }

 private:
  void write(const char* data, std::size_t bytes) {
    file_.write(data, static_cast<std::streamsize>(bytes));
    if (!file_) fail(path_.string() + ": cannot be written");
  }
  std::filesystem::path path_;
  std::size_t room_;
  std::string header_;
  std::size_t bytes_ = 0;
  std::ofstream file_;
};

}  // namespace detail

/// One recording. finish() moves it into place; a recording that is destroyed by an exception is marked as failed.
class Recording {
 public:
  /// Throws if `path` exists and `force` is not set, or if it is no recording. `runtime` names the program, for
  /// reports.
  explicit Recording(const std::string& path, bool force = false, std::string runtime = "C++")
      : target_(std::filesystem::absolute(path)),
        force_(force),
        runtime_(std::move(runtime)),
        exceptions_(std::uncaught_exceptions()) {
    refuse_existing();
    std::random_device random;
    temp_ = target_.parent_path() / ("." + target_.filename().string() + ".tmp-0-" + std::to_string(random()));
    std::filesystem::create_directory(temp_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (finished_) return;
    try {
      if (std::uncaught_exceptions() > exceptions_) failed("an exception ended it");
      finish();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::error_code ignored;
      std::filesystem::remove_all(temp_, ignored);
    }
  }

  /// Records what module `name` (or any name of yours) gave. `strides` in elements; none for packed rows. `path` tells
  /// the outputs of one call apart ("0", "hidden.mask"): give all of them before the next call of the name.
  void dump(const std::string& name, const void* data, Dtype dtype, const Shape& shape, const Shape& strides = {},
            const std::string& path = {}) {
    add("module", name, path, data, dtype, shape, strides);
  }
  void operator()(const std::string& name, const void* data, Dtype dtype, const Shape& shape,
                  const Shape& strides = {}) {
    dump(name, data, dtype, shape, strides);
  }
  /// Records an argument of the model.
  void input(const std::string& name, const void* data, Dtype dtype, const Shape& shape, const Shape& strides = {}) {
    add("input", name, {}, data, dtype, shape, strides);
  }
  /// Records the digest of a parameter, not its values: parameters of equal bytes are matched whatever their names are.
  void parameter(const std::string& name, const void* data, Dtype dtype, const Shape& shape,
                 const Shape& strides = {}) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string copy;
    const auto packed = packed_bytes(name, data, dtype, shape, strides, copy);
    parameters_ += (parameters_.empty() ? "" : ",\n") + ("{\"address\":" + detail::quoted(name)) +
                   ",\"kind\":\"parameter\",\"dtype\":\"" + detail::row(dtype).name +
                   "\",\"shape\":" + detail::listed(shape) + ",\"digest\":\"" +
                   detail::Xxh3::hex(packed.first, packed.second) + "\"}";
  }
  /// Marks the recording as failed.
  void failed(const std::string& reason) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
    reason_ = reason;
  }
  /// Writes manifest.json and moves the directory into place. To be called once.
  void finish() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (finished_) return;
    close_shard();
    std::ofstream manifest(temp_ / "manifest.json", std::ios::binary | std::ios::trunc);
    manifest << manifest_text();
    manifest.close();
    if (!manifest) detail::fail((temp_ / "manifest.json").string() + ": cannot be written");
    refuse_existing();
    std::filesystem::path old;
    if (std::filesystem::exists(target_)) {
      old = temp_;
      old += ".old";
      std::filesystem::rename(target_, old);
    }
    std::filesystem::rename(temp_, target_);
    finished_ = true;
    std::error_code ignored;
    if (!old.empty()) std::filesystem::remove_all(old, ignored);
  }

 private:
  static constexpr std::size_t kShardBytes = std::size_t{1} << 30;

  void refuse_existing() const {
    if (!std::filesystem::exists(target_)) return;
    if (!force_) detail::fail(target_.string() + ": exists; pass force to replace it");
    if (!std::filesystem::exists(target_ / "manifest.json"))
      detail::fail(target_.string() + ": exists and is no recording");
  }

  /// The packed elements: the given ones, or `copy`.
  static std::pair<const char*, std::size_t> packed_bytes(const std::string& name, const void* data, Dtype dtype,
                                                          const Shape& shape, const Shape& strides, std::string& copy) {
    const std::size_t item = detail::row(dtype).bytes, bytes = detail::count_of(name, shape) * item;
    if (!strides.empty() && strides.size() != shape.size())
      detail::fail(name + ": as many strides as sizes are needed");
    if (data == nullptr && bytes != 0) detail::fail(name + ": no data");
    const auto* from = static_cast<const char*>(data);
    if (bytes == 0 || strides.empty() || detail::is_packed(shape, strides)) return {from, bytes};
    copy.resize(bytes);
    char* to = copy.data();
    detail::pack(from, item, shape, strides, 0, to);
    return {copy.data(), bytes};
  }

  void add(const std::string& kind, const std::string& name, const std::string& path, const void* data, Dtype dtype,
           const Shape& shape, const Shape& strides) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (finished_) detail::fail(name + ": the recording is finished");
    std::string copy;
    const auto packed = packed_bytes(name, data, dtype, shape, strides, copy);
    const int call = ++calls_[kind + "/" + name + "/" + path];
    const std::string key =
        (kind == "module" ? "" : kind + "/") + name + ":" + std::to_string(call) + (path.empty() ? "" : "/" + path);
    if (!keys_.insert({key, 0}).second) detail::fail(key + ": recorded twice");
    const std::string head = detail::quoted(key) + ":{\"dtype\":\"" + detail::row(dtype).safetensors +
                             "\",\"shape\":" + detail::listed(shape) + ",";
    if (shard_ && !shard_->fits(head.size() + 64, packed.second, kShardBytes)) close_shard();
    if (!shard_) {
      char file[40];
      std::snprintf(file, sizeof file, "tensors-%05d.safetensors", shards_);
      const std::size_t room = std::size_t{1} << (14 + 2 * (shards_ < 4 ? shards_ : 4));
      shard_ = std::make_unique<detail::TensorFile>(temp_ / file,
                                                    room > head.size() + 128 ? room : (head.size() + 135) / 8 * 8);
    }
    shard_->add(head, packed.first, packed.second);
    entries_ += (entries_.empty() ? "" : ",\n") + ("{\"kind\":\"" + kind) + "\",\"name\":" + detail::quoted(name) +
                ",\"call\":" + std::to_string(call) + ",\"path\":" + detail::quoted(path) + ",\"dtype\":\"" +
                detail::row(dtype).name + "\",\"shape\":" + detail::listed(shape) +
                ",\"encoding\":\"dense\",\"shard\":" + std::to_string(shards_) + ",\"key\":" + detail::quoted(key) +
                "}";
  }

  void close_shard() {
    if (!shard_) return;
    files_ += (files_.empty() ? "" : ",\n") + shard_->finish();
    shard_.reset();
    ++shards_;
  }

  std::string manifest_text() const {
    return "{\"format\":\"torchlens.tlspec\",\"version\":1,\"kind\":\"dump\",\n"
           "\"producer\":{\"name\":\"torchlens recorder cpp\",\"version\":\"@TORCHLENS_VERSION@\"},\n"
           "\"source\":{\"runtime\":" +
           detail::quoted(runtime_) +
           ",\"language\":\"C++\"},\n"
           "\"outcome\":{\"status\":\"" +
           (failed_ ? "failed" : "complete") + "\",\"reason\":" + detail::quoted(reason_) +
           "},\n"
           "\"parameters\":[" +
           parameters_ + "],\n\"entries\":[" + entries_ + "],\n\"files\":[" + files_ + "]}\n";
  }

  std::filesystem::path target_, temp_;
  bool force_;
  std::string runtime_;
  int exceptions_;
  bool finished_ = false, failed_ = false;
  std::string reason_, parameters_, entries_, files_;
  std::map<std::string, int> calls_, keys_;
  std::unique_ptr<detail::TensorFile> shard_;
  int shards_ = 0;
  std::mutex mutex_;
};

namespace detail {
inline std::unique_ptr<Recording>& current() {
  static std::unique_ptr<Recording> recording;
  return recording;
}
}  // namespace detail

/// Begins the recording that the functions below write into; what is not closed is finished when the program exits.
inline void open(const std::string& path, bool force = false, const std::string& runtime = "C++") {
  detail::current() = std::make_unique<Recording>(path, force, runtime);
}
inline void dump(const std::string& name, const void* data, Dtype dtype, const Shape& shape, const Shape& strides = {},
                 const std::string& path = {}) {
  if (detail::current()) detail::current()->dump(name, data, dtype, shape, strides, path);
}
inline void input(const std::string& name, const void* data, Dtype dtype, const Shape& shape,
                  const Shape& strides = {}) {
  if (detail::current()) detail::current()->input(name, data, dtype, shape, strides);
}
inline void parameter(const std::string& name, const void* data, Dtype dtype, const Shape& shape,
                      const Shape& strides = {}) {
  if (detail::current()) detail::current()->parameter(name, data, dtype, shape, strides);
}
inline void close() {
  if (!detail::current()) return;
  detail::current()->finish();
  detail::current().reset();
}

}  // namespace torchlens

#endif  // TORCHLENS_DUMP_H

#include "core/digest.h"

#include <xxhash.h>

#include <new>

namespace tl {
namespace {

std::string to_hex(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const unsigned char byte : canonical.digest) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 0xF];
  }
  return out;
}

}  // namespace

std::string digest_hex(std::span<const std::byte> bytes) { return to_hex(XXH3_128bits(bytes.data(), bytes.size())); }

Digester::Digester() : state_(XXH3_createState()) {
  if (state_ == nullptr || XXH3_128bits_reset(state_.get()) != XXH_OK) throw std::bad_alloc();
}

void Digester::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

std::string Digester::hex() const { return to_hex(XXH3_128bits_digest(state_.get())); }

void Digester::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

}  // namespace tl

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct XXH3_state_s;

namespace tl {

/// The XXH3 128-bit digest of `bytes` as 32 lower-case hex digits, as `xxh128sum` prints it. Finds accidents, not
/// attackers.
std::string digest_hex(std::span<const std::byte> bytes);

/// The same digest over bytes that arrive in pieces.
class Digester {
 public:
  Digester();
  void update(std::span<const std::byte> bytes);
  /// The digest of all bytes so far; more may follow.
  std::string hex() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace tl

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "archive/pickle_value.h"
#include "archive/unpickler.h"

namespace tl {

class ZipDirectory;

/// What an unpickler does for the names it understands: torch's rebuild functions, storages and small types. One object
/// per pickle; storages are read once per key.
class TorchRebuilder {
 public:
  /// `zip` may be null: then storages are refused. `where` is used in messages.
  TorchRebuilder(const ZipDirectory* zip, std::string storage_prefix, std::string where,
                 const UnpickleOptions& options);

  /// The value of a global: a dtype, or the name itself where `call` or a storage tuple understands it.
  /// Throws Error(kUnsafePickle) for all others.
  PickleValue global(const std::string& name) const;
  /// One of UnpickleOptions::records.
  bool is_record(std::string_view name) const;
  /// The result of `name(*args)`, or nullopt if `name` makes a container that only the unpickler can (OrderedDict,
  /// script classes).
  std::optional<PickleValue> call(const std::string& name, std::span<const PickleValue> args);
  /// The storage of a persistent id ('storage', class, key, location, count).
  PickleValue storage(const PickleValue& id);

  /// What tells where in the pickle's value the unpickler is, for messages; empty at the top.
  void set_place(std::function<std::string()> place) { place_ = std::move(place); }

  [[noreturn]] void unsafe(const std::string& name) const;
  [[noreturn]] void damaged(const std::string& what) const;

 private:
  struct Meta {
    std::int64_t offset = 0;
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
  };

  HostTensor strided(const PickleStorage& storage, DType dtype, const Meta& meta) const;
  PickleValue rebuild_tensor(std::span<const PickleValue> args, bool version_3);
  PickleValue rebuild_quantised(std::span<const PickleValue> args);
  PickleValue rebuild_sparse(std::span<const PickleValue> args);
  std::optional<PickleValue> rebuild_from_type(std::span<const PickleValue> args);
  Meta meta_of(std::span<const PickleValue> args) const;
  void refuse_view_bits(const PickleValue& metadata) const;
  const PickleStorage& load(const std::string& key);

  const ZipDirectory* zip_;
  std::string prefix_;
  std::string where_;
  UnpickleOptions options_;
  std::function<std::string()> place_;
  std::unordered_map<std::string, PickleStorage> storages_;  // by key; whole entries, untyped
};

}  // namespace tl

#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/pickle_value.h"

namespace tl {

class ZipDirectory;

struct UnpickleOptions {
  /// Accept objects of TorchScript classes (`__torch__.…`) as PickleObject, instead of refusing them.
  bool script_classes = false;
  /// A storage without bytes (TorchScript's traced_inputs) gives tensors with an empty storage instead of an error.
  bool tensors_without_data = false;
  /// Classes by the last part of their names, whose objects come as PickleObject: their parts, as if the class had no
  /// code. What else a pickle refers to is refused as always.
  std::vector<std::string> records = {};
  /// For looking only: tensors are checked against the sizes of their storages, but hold no bytes (nothing is inflated
  /// or copied); tensors of one storage have the same owner.
  bool sizes_only = false;
};

/// Reads a value written by torch.save or by TorchScript, executing nothing: only names on a fixed list are understood
/// (torch's rebuild functions and storages, OrderedDict, torch.Size, device, dtype, complex, bytes, TorchScript's type
/// tags). Attributes of Python on plain tensors and parameters are dropped. Tensors of other devices become host
/// tensors; requires_grad is ignored; tensors that share a storage share it here too, and point into the mapped file
/// where it is stored uncompressed and aligned. Throws Error: kUnsafePickle (naming what is outside the list),
/// kFileDamaged, kFileHostile, kFileLimits, kUnsupportedKind (big-endian data, conjugate or negative views), kNotAModel
/// (no zip-form torch.save file).
PickleValue read_torch_pickle(const std::filesystem::path& path, const UnpickleOptions& options = {});

/// The same for one pickle of an archive: `pickle` is its entry (`root/data.pkl`), `storage_prefix` what precedes the
/// keys of its storages (`root/data/`). The archive's owner() keeps the tensors' bytes alive; without one they are
/// copied.
PickleValue read_torch_pickle(const ZipDirectory& zip, std::string_view pickle, std::string_view storage_prefix,
                              const UnpickleOptions& options = {});

/// The folder (with its slash; empty if at the top) that holds `data.pkl`, `version` … in an archive that torch wrote:
/// the first part of the first entry's name, as LibTorch takes it.
std::string archive_root(const ZipDirectory& zip);

/// A pickle without storages; a tensor in it is refused.
PickleValue unpickle(std::span<const std::byte> pickle, const std::string& where, const UnpickleOptions& options = {});

}  // namespace tl

#pragma once

#include <cstdint>
#include <filesystem>
#include <set>

namespace tl {

/// Holds tensors files of a recording of torchlens against the checksums in its manifest: those of the numbers in
/// `shards`, or all of a recorder's, which has few. Recordings of other tools state none and pass. Reads every byte of
/// the files. Throws Error(kFileDamaged) with the file and both checksums, and what reading a manifest throws.
void check_tensors_files(const std::filesystem::path& recording, const std::set<std::int64_t>& shards);

}  // namespace tl

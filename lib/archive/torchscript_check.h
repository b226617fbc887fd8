#pragma once

namespace tl {

class ZipDirectory;

/// Everything that can be said against a TorchScript archive before LibTorch sees it, which trusts what it reads: it
/// checks no checksum, allocates by the numbers of a pickle, and takes tensors to lie inside their storages. Here the
/// checksum of every entry is verified; each pickle that loading reads (data, constants, traced_inputs, source
/// positions) is walked with its stack, memo and nesting; every tensor must lie inside a storage that is present, and
/// the indices of a sparse one inside its shape. The module must be an object of a TorchScript class, the constants a
/// tuple. Sources are scan_torchscript's. Nothing is executed.
/// Time: one read of the file. Throws Error: kFileDamaged, kFileHostile (also for names that no TorchScript file refers
/// to), kFileLimits, kUnsupportedKind (big-endian data, conjugate views).
void check_torchscript(const ZipDirectory& zip);

/// check_torchscript without the checksums of what it does not read itself, which is above all the weights: whoever
/// calls it verifies those (ZipDirectory::verify_crc), at the latest before the weights are used. Time: that of the
/// structure.
void check_torchscript_structure(const ZipDirectory& zip);

/// False if the archive stores no source positions (`code/….debug_pkl`), by which the passes of repeated code are told.
bool has_source_positions(const ZipDirectory& zip);

}  // namespace tl

#pragma once

#include <filesystem>

#include "trace/dump.h"

namespace tl {

class JsonTape;
class MappedFile;

/// The readers behind read_reference (foreign.h), one a format. Each has been told that its input looks like one; it
/// throws Error as said there.

/// A `.tlspec` of kind dump, as `torchlens recorder` writes it; `manifest` is its manifest.json.
Dump read_recorder_dump(const std::filesystem::path& directory, const JsonTape& manifest);

/// A `.tlspec` of the Python package TorchLens: its manifest.json and blobs, not its pickle. Entries are Ops, named by
/// label; a module call around a single Op is an entry of its own. No module call with several Ops is, as the manifest
/// does not say which of them it returned.
Dump read_python_torchlens(const std::filesystem::path& directory, const JsonTape& manifest);

/// FastVideo's activation trace: a JSON object a line with module, tensor, step and statistics.
Dump read_statistics_lines(const std::filesystem::path& path);

/// Polygraphy's `--save-outputs` (RunResults; the first runner) or `--save-inputs` (a list of feeds).
Dump read_polygraphy(const std::filesystem::path& path, const JsonTape& json);

/// `trtexec --exportOutput`.
Dump read_trtexec_output(const std::filesystem::path& path, const JsonTape& json);

/// `trtexec --saveAllDebugTensors=summary,numpy`: a directory with tensor_summary.json.
Dump read_trtexec_tensors(const std::filesystem::path& directory);

/// A directory of `.pt` files that SGLang's dumpers wrote, or any `.pt` of tensors by name.
Dump read_torch_files(const std::filesystem::path& path);

/// A safetensors, `.npz` or `.npy` file, or a directory of them; names are keys, or file names without extension. A key
/// that ends in `:N` is call N of its name.
Dump read_tensor_files(const std::filesystem::path& path);

}  // namespace tl

#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/given_inputs.h"

namespace tl {

/// Reads a file of inputs, whose form is told by its content: safetensors, `.npy`, `.npz`, JSON (scalars, lists and
/// objects of them), or a `torch.save` archive read by the allow-listed unpickler. Tensors stay views of the mapped
/// file where they can. A `.pt` that holds `(args, kwargs)`, a tuple or a list gives positional values, a dict gives
/// names. Throws Error: kFileMissing, kNotAnInput, and what the readers of the formats throw.
GivenSet read_input_file(const std::filesystem::path& path);

/// One `--input`: FILE, NAME=FILE, NAME=FILE:KEY or NAME=LITERAL (engine/literal.h); NAME may be a path into an
/// argument; FILE:KEY is one entry under its own name; FILE may be `-`, standard input, which is read as JSON. A
/// LITERAL goes before a file of that name. Throws Error as read_input_file, and kUsage.
GivenSet read_input_option(const std::string& text);

/// All `--input` options, in order. Throws the Error of the first that cannot be read; its note names the others.
std::vector<GivenSet> read_input_options(std::span<const std::string> options);

/// All `--random` options as one set of tensors.
GivenSet make_random_inputs(std::span<const std::string> specs, std::uint64_t seed);

}  // namespace tl

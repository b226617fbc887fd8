#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include "core/source_text.h"
#include "trace/capture.h"
#include "trace/trace.h"

namespace tl::test {

/// The Capture that a run would have left: rows of ops become events, those of kind output what the model returned,.
/// Raw labels, Layers and everything else that steps compute is lost.
Capture capture_from_trace(const Trace& trace);

/// The same from a trace text.
Capture capture_from_text(const std::string& text);

/// Source texts out of a file: each behind a line `#source LINE FILE`. None if there is no such file.
std::vector<SourceText> source_texts(const std::filesystem::path& path);

/// A column or span as a vector, for matchers.
template <typename Rows>
auto rows(const Rows& column) {
  return std::vector<std::remove_cvref_t<decltype(column[0])>>(column.begin(), column.end());
}

/// Labels of all Ops in order.
std::vector<std::string> labels(const Trace& trace);

/// A seeded random capture: modules, nested calls, loops over few instructions, islands, multi-output calls, buffers
/// read and written, host values, branches. Every column of a finished trace gets values from it.
Capture random_capture(std::uint64_t seed, std::size_t operations);

/// A trace with every column drawn at random: in range, but without meaning.
Trace random_columns(std::uint64_t seed, std::size_t rows);

/// Path of a reference file that is not part of the project, empty if it is absent.
std::string shared_file(const std::string& name);

}  // namespace tl::test

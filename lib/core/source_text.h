#pragma once

#include <cstdint>
#include <string>

namespace tl {

/// The text of one function as the author wrote it, out of a model file.
struct SourceText {
  std::string file;             ///< as the exporter saw it
  std::int64_t first_line = 1;  ///< line of the file that the text begins with, from 1
  std::string text;
};

}  // namespace tl

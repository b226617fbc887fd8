#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "tensor/safetensors.h"

namespace tl::test {

/// A file of data/, which make_data.py there wrote.
inline std::filesystem::path data_path(std::string_view name) {
  return std::filesystem::path(TL_SOURCE_DIR) / "tests/unit/tensor/data" / name;
}

inline HostTensor tensor_of(const SafetensorsFile& file, std::string_view name) { return file.tensor(name).value(); }

/// The code and message of the Error that `action` throws; `none` as message if it throws none.
template <typename Action>
std::pair<ErrorCode, std::string> error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.code, error.message};
  }
  return {ErrorCode::kInternal, "none"};
}

}  // namespace tl::test

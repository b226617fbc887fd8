#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensor/host_tensor.h"
#include "trace/capture.h"

namespace tl::lt {

/// The static tables that lowering fills; copied into every Capture.
struct StaticTables {
  StringPool strings;
  ShapePool shapes;
  InstructionsTable instructions;
  CallSitesTable call_sites;
  ModulesTable modules;
  ParamsTable params;
  BuffersTable buffers;
  std::vector<std::string> unknown_ops;
};

/// Rows of call_sites, one a place.
class CallSiteRows {
 public:
  explicit CallSiteRows(StaticTables& tables) : tables_(tables) {}
  /// Row of a place; columns from 0, -1 where the file states none.
  std::int32_t row(const std::string& file, std::int64_t line, std::int64_t column, std::int64_t column_end,
                   const std::string& function);

 private:
  StaticTables& tables_;
  std::unordered_map<std::string, std::int32_t> rows_;
};

/// `file:line` of a row of call_sites; empty for -1.
std::string place_of(const StaticTables& tables, std::int32_t site);

/// Appends a row of params: `kind` is a ParamKind, `module` a row of modules or -1. `digest` is that of the packed
/// elements (core/digest.h) where the caller has it; otherwise they are read for it.
std::uint32_t append_param(StaticTables& tables, const at::Tensor& tensor, const std::string& address,
                           std::int32_t module, ParamKind kind, std::string digest = {});
/// Appends a row of buffers.
std::uint32_t append_buffer_row(StaticTables& tables, const at::Tensor& tensor, const std::string& address,
                                std::int32_t module);

/// Address of a module or attribute below another: `path("", "fc")` is `fc`.
std::string path_below(const std::string& address, const std::string& name);

/// Element type of most bytes of the parameters, short name; empty without parameters.
std::string main_dtype(const StaticTables& tables);

}  // namespace tl::lt

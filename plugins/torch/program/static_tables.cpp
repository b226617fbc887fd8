#include "program/static_tables.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "bridge/tensor_bridge.h"
#include "core/digest.h"

namespace tl::lt {
namespace {

/// XXH3-128 of the elements in row-major order without gaps; empty for what has no plain elements on the host. Read
/// once a model, at the speed of memory, where the model would read them anyway.
std::string digest_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided || !tensor.device().is_cpu() || tensor.is_quantized())
    return {};
  const auto packed = tensor.detach().resolve_conj().resolve_neg().contiguous();
  return digest_hex({static_cast<const std::byte*>(packed.const_data_ptr()), packed.nbytes()});
}

}  // namespace

std::int32_t CallSiteRows::row(const std::string& file, std::int64_t line, std::int64_t column, std::int64_t column_end,
                               const std::string& function) {
  const auto key = file + "\n" + std::to_string(line) + "\n" + std::to_string(column) + "\n" +
                   std::to_string(column_end) + "\n" + function;
  const auto [found, fresh] = rows_.emplace(key, static_cast<std::int32_t>(tables_.call_sites.file.size()));
  if (fresh) {
    auto& table = tables_.call_sites;
    table.file.push_back(tables_.strings.intern(file));
    table.line.push_back(static_cast<std::int32_t>(line));
    table.column.push_back(static_cast<std::int32_t>(column));
    table.column_end.push_back(static_cast<std::int32_t>(column_end));
    table.function.push_back(tables_.strings.intern(function));
  }
  return found->second;
}

std::string place_of(const StaticTables& tables, std::int32_t site) {
  if (site < 0) return {};
  const auto row = static_cast<std::size_t>(site);
  return std::string(tables.strings[tables.call_sites.file[row]]) + ":" + std::to_string(tables.call_sites.line[row]);
}

std::uint32_t append_param(StaticTables& tables, const at::Tensor& tensor, const std::string& address,
                           std::int32_t module, ParamKind kind, std::string digest) {
  auto& params = tables.params;
  const auto row = static_cast<std::uint32_t>(params.address.size());
  const auto name = tables.strings.intern(address);
  params.address.push_back(name);
  params.all_addresses.push_back(name);
  params.module.push_back(module);
  params.kind.push_back(static_cast<std::uint8_t>(kind));
  params.dtype.push_back(static_cast<std::uint8_t>(dtype_of(tensor)));
  const auto sizes = tensor.sizes();
  params.shape.push_back(tables.shapes.intern({sizes.data(), sizes.size()}));
  params.bytes.push_back(static_cast<std::int64_t>(tensor.numel()) * static_cast<std::int64_t>(tensor.itemsize()));
  params.trainable.push_back(tensor.requires_grad() ? 1 : 0);
  if (digest.empty()) digest = digest_of(tensor);
  params.digest.push_back(digest.empty() ? -1 : tables.strings.intern(digest));
  return row;
}

std::uint32_t append_buffer_row(StaticTables& tables, const at::Tensor& tensor, const std::string& address,
                                std::int32_t module) {
  auto& buffers = tables.buffers;
  const auto row = static_cast<std::uint32_t>(buffers.address.size());
  buffers.address.push_back(tables.strings.intern(address));
  buffers.module.push_back(module);
  buffers.dtype.push_back(static_cast<std::uint8_t>(dtype_of(tensor)));
  const auto sizes = tensor.sizes();
  buffers.shape.push_back(tables.shapes.intern({sizes.data(), sizes.size()}));
  buffers.bytes.push_back(static_cast<std::int64_t>(tensor.numel()) * static_cast<std::int64_t>(tensor.itemsize()));
  buffers.num_versions.push_back(0);
  buffers.last_op.push_back(-1);
  return row;
}

std::string path_below(const std::string& address, const std::string& name) {
  return address.empty() ? name : address + "." + name;
}

std::string main_dtype(const StaticTables& tables) {
  std::map<std::uint8_t, std::int64_t> bytes;
  for (std::size_t row = 0; row < tables.params.dtype.size(); ++row)
    bytes[tables.params.dtype[row]] += tables.params.bytes[row];
  if (bytes.empty()) return {};
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; });
  return std::string(short_name(static_cast<DType>(most->first)));
}

}  // namespace tl::lt

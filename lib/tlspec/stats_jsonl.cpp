#include "tlspec/stats_jsonl.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/digest.h"
#include "core/escape.h"
#include "core/output_file.h"
#include "tensor/statistics.h"

namespace tl {
namespace {

std::string json_string(std::string_view text) { return nlohmann::json(escape_invalid_utf8(text)).dump(); }

std::string number(double value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text(digits.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

bool is_integral(DType dtype) { return !is_floating(dtype) && !is_complex(dtype); }

/// The text of a JSON object, spaced as Python's json writes it.
class ObjectText {
 public:
  void add(std::string_view key, std::string_view value) {
    text_ += text_.empty() ? "{\"" : ", \"";
    text_ += key;
    text_ += "\": ";
    text_ += value;
  }
  std::string finish() { return text_.empty() ? "{}" : std::move(text_) + "}"; }

 private:
  std::string text_;
};

/// Extremes of integers exactly.
std::string extreme(const Trace& trace, std::size_t row, bool least) {
  const auto& table = trace.statistics;
  const auto op = static_cast<std::size_t>(table.op[row]);
  const auto dtype = static_cast<DType>(trace.ops.dtype[op]);
  if (const auto exact = table.find_exact(op)) {
    const auto bits = (least ? table.exact_min : table.exact_max)[*exact];
    return dtype == DType::kU64 ? std::to_string(static_cast<std::uint64_t>(bits)) : std::to_string(bits);
  }
  const double value = (least ? table.min : table.max)[row];
  const bool fits = std::fabs(value) < 0x1p53;  // false for NaN
  return is_integral(dtype) && fits ? std::to_string(static_cast<std::int64_t>(value)) : number(value);
}

std::string histogram(const StatisticsTable& table, std::size_t row) {
  ObjectText bins;
  const auto end = static_cast<std::size_t>(table.histogram_begin[row + 1]);
  for (auto bin = static_cast<std::size_t>(table.histogram_begin[row]); bin < end; ++bin) {
    const int code = table.histogram_code[bin];
    const auto key = code == 0 ? "0" : (code < 0 ? "-2^" : "2^") + std::to_string(std::abs(code) - kHistogramBias);
    bins.add(key, std::to_string(table.histogram_count[bin]));
  }
  return bins.finish();
}

void add_statistic(ObjectText& object, const Trace& trace, const StatisticInfo& info, std::size_t row) {
  const auto& table = trace.statistics;
  switch (info.bit) {
    case kStatInf:
      object.add("inf", std::to_string(table.posinf[row] + table.neginf[row]));
      object.add("neginf", std::to_string(table.neginf[row]));
      return;
    case kStatMin:
    case kStatMax:
      return object.add(info.name, extreme(trace, row, info.bit == kStatMin));
    case kStatHistogram:
      return object.add(info.name, histogram(table, row));
    default:
      break;
  }
  visit_statistics(table, [&](std::string_view, const auto& column, StatisticSet bits) {
    if (bits != info.bit) return;
    if constexpr (std::is_same_v<decltype(column[0]), const double&>) {
      object.add(info.name, number(column[row]));
    } else {
      object.add(info.name, std::to_string(column[row]));
    }
  });
}

void add_statistics(ObjectText& object, const Trace& trace, std::size_t row) {
  for (const auto& info : statistic_infos()) {
    if ((trace.statistics.taken & info.bit) != 0) add_statistic(object, trace, info, row);
  }
}

class Lines {
 public:
  explicit Lines(const Trace& trace) : trace_(trace), returned_by_(trace.num_ops()) {
    const auto& calls = trace.module_calls;
    for (std::size_t call = calls.module.size(); call-- > 0;) {
      if (calls.output_op[call] < 0) continue;
      returned_by_[static_cast<std::size_t>(calls.output_op[call])].push_back(static_cast<std::uint32_t>(call));
    }
  }

  std::string line(std::size_t row) const {
    const auto op = static_cast<std::size_t>(trace_.statistics.op[row]);
    const OpId id{static_cast<std::uint32_t>(op)};
    ObjectText object;
    add_place(object, op);
    add_statistics(object, trace_, row);
    add_type(object, op);
    object.add("label", json_string(op_label(trace_, id)));
    if (trace_.ops.instruction[op] >= 0) object.add("func_name", json_string(func_name(trace_, id)));
    object.add("call", std::to_string(trace_.module_calls.call_index[call_of(op)]));
    if (!returned_by_[op].empty()) object.add("output_of", returned_by(op));
    return object.finish() + "\n";
  }

 private:
  std::size_t call_of(std::size_t op) const { return static_cast<std::size_t>(trace_.ops.module_call[op]); }

  /// Address of the module of a call; empty for the root, as in PyTorch's named_modules().
  std::string_view address_of(std::size_t call) const {
    const auto module = trace_.module_calls.module[call];
    return module == 0 ? std::string_view() : trace_.strings[trace_.modules.address[static_cast<std::size_t>(module)]];
  }

  void add_place(ObjectText& object, std::size_t op) const {
    const auto call = call_of(op);
    const auto& calls = returned_by_[op];
    std::string tensor = "out";
    if (trace_.ops.kind[op] != static_cast<std::uint8_t>(OpKind::kOperation)) {
      tensor = trace_.strings[trace_.ops.address[op]];
    } else if (std::ranges::find(calls, static_cast<std::uint32_t>(call)) == calls.end()) {
      tensor = op_label(trace_, OpId{static_cast<std::uint32_t>(op)});
    }
    object.add("module", json_string(address_of(call)));
    object.add("tensor", json_string(tensor));
    object.add("step", "0");
  }

  void add_type(ObjectText& object, std::size_t op) const {
    std::string shape;
    for (const auto size : trace_.shapes[trace_.ops.shape[op]]) {
      shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    }
    object.add("shape", "[" + shape + "]");
    const auto& dtype = dtype_info(static_cast<DType>(trace_.ops.dtype[op]));
    object.add("dtype", "\"torch." + std::string(dtype.torch_name) + "\"");
  }

  std::string returned_by(std::size_t op) const {
    std::string list;
    for (const auto call : returned_by_[op]) list += (list.empty() ? "" : ", ") + json_string(address_of(call));
    return "[" + list + "]";
  }

  const Trace& trace_;
  std::vector<std::vector<std::uint32_t>> returned_by_;  ///< by Op: module calls that returned it, innermost first
};

}  // namespace

std::string statistics_text(const Trace& trace, std::size_t row) {
  ObjectText object;
  add_statistics(object, trace, row);
  return object.finish();
}

SafetensorsWriter::Written write_stats_jsonl(const std::filesystem::path& path, const Trace& trace) {
  OutputFile file(path);
  Digester digester;
  const Lines lines(trace);
  for (std::size_t row = 0; row < trace.statistics.size(); ++row) {
    const auto line = lines.line(row);
    digester.update(std::as_bytes(std::span(line)));
    file.append(line);
  }
  SafetensorsWriter::Written written{file.tell(), digester.hex()};
  file.close();
  return written;
}

}  // namespace tl

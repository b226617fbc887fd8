#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "trace/tables.h"

namespace tl::test {

/// What Python recorded of a value: sums over all elements, in double.
struct ReferenceValue {
  DType dtype = DType::kNone;
  std::vector<std::int64_t> shape;
  bool empty = false;  ///< no elements, no statistics
  double sum = 0;
  double mean = 0;
  double min = 0;
  double max = 0;
  double abs_mean = 0;
  std::vector<double> values;  ///< all elements in row-major order, of small tensors only
};

/// A line of Python that was running when an op ran.
struct ReferencePlace {
  std::string file;  ///< without directory
  int line = 0;
  int column = 0;
  friend bool operator==(const ReferencePlace&, const ReferencePlace&) = default;
};

/// One op of a Python recording. Ops refer to each other by row.
struct ReferenceOp {
  std::string label;
  OpKind kind = OpKind::kOperation;
  std::string func_name;  ///< as Python names it: __add__, conv2d
  std::string address;    ///< io role of inputs and outputs, address of buffers
  std::vector<std::size_t> parents;
  std::vector<std::string> modules;  ///< cell:1, cell.i2h:1
  std::vector<std::string> params;   ///< names of parameters without the module
  std::optional<int> slot;           ///< of calls with several outputs
  bool reaches_output = false;
  bool unchanged_write = false;  ///< a buffer version whose write left the value as it was
  ReferenceValue value;
  std::vector<ReferencePlace> places;  ///< calls that led to the op, innermost last
  std::size_t layer = 0;               ///< row of layers
  std::string layer_label;  ///< label by the design document's rule, with the pass where the layer has several
};

struct ReferenceModule {
  std::string all_addresses;
  int num_calls = 0;
  friend bool operator==(const ReferenceModule&, const ReferenceModule&) = default;
};

/// One Python recording and the list of operators in the file made from the same model.
struct ReferenceRun {
  std::vector<ReferenceOp> ops;
  std::vector<std::size_t> layer_sizes;            ///< passes of each layer, by the design document's rule
  std::map<std::string, ReferenceModule> modules;  ///< called modules by address; the root is self
  std::vector<std::string> file_ops;               ///< aten:: and prim:: names of the file, inlined, in order
};

/// Reads variant `build/<inputs>` of a reference JSON; `artifact` is script, trace or export.
ReferenceRun read_reference_run(const std::filesystem::path& json, const std::string& inputs,
                                const std::string& artifact);

}  // namespace tl::test

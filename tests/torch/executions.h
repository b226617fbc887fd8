#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "torch/plain_calls.h"
#include "trace/capture.h"

namespace tl::test {

/// What differs between two tensors: parts, element types, sizes, bytes. Empty if nothing does.
std::string difference(const TensorRef& ours, const TensorRef& theirs);

/// The same of two tensors without parts.
std::string difference(const HostTensor& ours, const HostTensor& theirs);

/// One execution of an instruction that left records.
struct Execution {
  std::size_t instruction = 0;
  std::vector<std::size_t> events;  ///< by slot as recorded
  std::size_t flow_rows = 0;
};

/// Name and overload of a row of instructions.
std::string full_name(const Capture& capture, std::size_t row);

bool is_dispatched(const Capture& capture, std::size_t row);

/// Executions in order. Several host values of one execution count as one where its operator yields several.
std::vector<Execution> executions_of(const Capture& capture);

/// Where the calls of one execution begin and end in LibTorch's stream, after calls that leave no record.
struct Match {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Aligns executions with calls by name. The table leaves some calls open, so every possible position is carried along.
/// nullopt, and `failure` says why, if they cannot be aligned.
std::optional<std::vector<Match>> align(const Capture& capture, const std::vector<Execution>& executions,
                                        const std::vector<PlainCall>& calls, std::string& failure);

/// What a comparison found.
struct Tally {
  std::size_t compared = 0;
  std::size_t uninitialised = 0;
  std::size_t flow = 0;
  std::string findings;
  std::size_t num_findings = 0;
  void find(const std::string& text) {
    if (++num_findings <= 8) findings += "  " + text + "\n";
  }
};

/// Compares the payloads of one execution with what the call returned.
void compare_call(const Capture& capture, const Execution& execution, const PlainCall& call, Tally& tally);

/// Aligns, and compares the payloads of every execution that is one call.
void compare_calls(const Capture& capture, const std::vector<PlainCall>& calls, Tally& tally);

}  // namespace tl::test

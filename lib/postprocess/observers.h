#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "postprocess/step.h"

namespace tl {

/// --time-steps: wall time of every step.
class StepTimer : public StepObserver {
 public:
  struct Row {
    std::string_view step;
    double seconds = 0;
  };
  void before(const Step& step, const Trace& trace) override;
  void after(const Step& step, const Trace& trace) override;
  const std::vector<Row>& rows() const { return rows_; }
  double total_seconds() const;

 private:
  std::chrono::steady_clock::time_point start_;
  std::vector<Row> rows_;
};

/// --print-after=NAME|all, --print-changed: the trace text after steps.
class StepPrinter : public StepObserver {
 public:
  using Sink = std::function<void(std::string_view)>;
  /// `which` is the name of a step or `all`; `changed` prints only steps that changed the text, and marks the others as
  /// unchanged. Throws Error(kUsage) when no step has the name.
  StepPrinter(std::string which, bool changed, Sink sink);
  void after(const Step& step, const Trace& trace) override;

 private:
  std::string which_;
  bool changed_;
  Sink sink_;
  std::string last_text_;
};

/// --dump-steps DIR: DIR/07-group-loops.trace after every step. Two of them are compared with plain diff.
/// Throws Error(kOutputFailed) when a file cannot be written.
class StepDumper : public StepObserver {
 public:
  explicit StepDumper(std::filesystem::path directory);
  void after(const Step& step, const Trace& trace) override;

 private:
  std::filesystem::path directory_;
  std::size_t number_ = 0;
};

/// --verify-each: the invariants after every step. Throws Error(kInvariant) that names the step and the first finding.
class StepVerifier : public StepObserver {
 public:
  void after(const Step& step, const Trace& trace) override;
};

/// Debug builds: a step may change only the column groups it declares. Hashes every column before and after; throws
/// Error(kInternal) that names the step and the column.
class StepContract : public StepObserver {
 public:
  void before(const Step& step, const Trace& trace) override;
  void after(const Step& step, const Trace& trace) override;

 private:
  struct Digest {
    std::string column;
    ColumnGroup group;
    std::string digest;
  };
  static std::vector<Digest> digests(const Trace& trace);
  std::vector<Digest> before_;
};

}  // namespace tl

#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "diff/diff.h"
#include "postprocess/pipeline.h"
#include "support/trace_fixtures.h"

namespace tl::test {

/// Payload k is the k-th tensor.
class Tensors final : public PayloadSource {
 public:
  class Ref final : public TensorRef {
   public:
    explicit Ref(HostTensor tensor) : tensor_(std::move(tensor)) {}
    TensorKind kind() const override { return TensorKind::kStrided; }
    std::vector<TensorPart> to_host() const override { return {{"", tensor_}}; }

   private:
    HostTensor tensor_;
  };
  explicit Tensors(std::vector<HostTensor> tensors) : tensors_(std::move(tensors)) {}
  std::size_t size() const override { return tensors_.size(); }
  PayloadFacts facts(PayloadId id) const override {
    const auto& tensor = tensors_[id.index()];
    PayloadFacts facts;
    facts.dtype = tensor.dtype;
    facts.storage = id.index() + 1;
    facts.sizes = tensor.sizes;
    facts.strides = tensor.strides;
    return facts;
  }
  TensorRefPtr tensor(PayloadId id) const override { return std::make_shared<Ref>(tensors_[id.index()]); }

 private:
  std::vector<HostTensor> tensors_;
};

template <typename Word>
HostTensor tensor_of(DType dtype, std::vector<std::int64_t> sizes, const std::vector<Word>& words) {
  std::vector<std::byte> bytes(words.size() * sizeof(Word));
  if (!words.empty()) std::memcpy(bytes.data(), words.data(), bytes.size());
  return make_host_tensor(dtype, std::move(sizes), std::move(bytes));
}

inline HostTensor floats(const std::vector<float>& values) {
  return tensor_of(DType::kF32, {static_cast<std::int64_t>(values.size())}, values);
}

/// scale times 1 to 8.
inline std::vector<float> ramp(float scale) {
  std::vector<float> values;
  for (int i = 1; i <= 8; ++i) values.push_back(scale * static_cast<float>(i));
  return values;
}

/// An entry of a dump that holds the values.
inline DumpEntry entry(const std::string& name, const std::vector<float>& values, const std::string& path = "") {
  DumpEntry made;
  made.name = name;
  made.path = path;
  made.dtype = DType::kF32;
  made.sizes = {static_cast<std::int64_t>(values.size())};
  made.value = std::make_shared<Tensors::Ref>(floats(values));
  return made;
}

/// A finished trace of a text whose k-th event has the k-th tensor as its payload; events beyond the tensors have none.
inline Trace trace_of(const std::string& text, std::vector<HostTensor> tensors = {}) {
  auto capture = capture_from_text("trace 1\n" + text);
  if (!tensors.empty()) {
    for (std::uint32_t event = 0; event < capture.events.size(); ++event) {
      capture.events[event].payload = event < tensors.size() ? event : PayloadId::kNone;
    }
    capture.payloads = std::make_shared<Tensors>(std::move(tensors));
  }
  return run_pipeline(std::move(capture));
}

inline DiffReport diff_of(const Trace& reference, const Trace& subject, DiffOptions options = {}) {
  options.reference_name = "a";
  options.subject_name = "b";
  return compare_recordings(make_side(reference, options.rename), make_side(subject), options).report;
}

/// The reports of a dump against a trace, first with the dump as the reference, then with the trace.
inline std::vector<DiffReport> both_ways(const Dump& dump, const Trace& trace) {
  return {compare_recordings(make_side(dump), make_side(trace), {}).report,
          compare_recordings(make_side(trace), make_side(dump), {}).report};
}

inline std::vector<std::string> labels_of(const std::vector<SiteRef>& refs) {
  std::vector<std::string> labels;
  for (const auto& ref : refs) labels.push_back(ref.label);
  return labels;
}

}  // namespace tl::test

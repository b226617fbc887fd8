// text_to_tlspec TEXT DIR: runs the steps over a trace text as if a model had just run, and writes the recording;
// source texts of the model are in TEXT with the extension .source, if there is such a file. Makes the recordings of
// the golden tests, so that what is committed can be read and reviewed. A line `# sparse` in the text asks for a sparse
// recording, `# statistics` for statistics as if every f32 value had the elements 0, 1, 2 …, `# values` for these
// elements themselves, `# samples` for two of them at the fixed positions.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/error.h"
#include "postprocess/pipeline.h"
#include "support/trace_fixtures.h"
#include "tensor/host_tensor.h"
#include "tensor/sample.h"
#include "tlspec/writer.h"
#include "trace/statistics_recorder.h"

namespace {

/// The elements 0, 1, 2 … in the shape of an event's value.
tl::HostTensor value_of(const tl::Capture& capture, std::uint32_t event) {
  const auto sizes = capture.shapes[static_cast<std::int32_t>(capture.events[event].shape)];
  std::vector<float> values(static_cast<std::size_t>(tl::checked_numel(sizes)));
  std::iota(values.begin(), values.end(), 0.0F);
  const auto bytes = std::as_bytes(std::span(values));
  return tl::make_host_tensor(tl::DType::kF32, {sizes.begin(), sizes.end()}, {bytes.begin(), bytes.end()});
}

void add_statistics(tl::Capture& capture) {
  tl::StatisticsRecorder recorder(tl::kAllStatistics);
  for (std::uint32_t event = 0; event < capture.events.size(); ++event) {
    recorder.on_value(event, value_of(capture, event));
  }
  capture.statistics = recorder.take();
}

/// Payload k is the k-th tensor.
class HeldTensors final : public tl::PayloadSource {
 public:
  class Ref final : public tl::TensorRef {
   public:
    explicit Ref(tl::HostTensor tensor) : tensor_(std::move(tensor)) {}
    tl::TensorKind kind() const override { return tl::TensorKind::kStrided; }
    std::vector<tl::TensorPart> to_host() const override { return {{"", tensor_}}; }

   private:
    tl::HostTensor tensor_;
  };

  void add(tl::HostTensor tensor) { tensors_.push_back(std::move(tensor)); }
  std::size_t size() const override { return tensors_.size(); }
  tl::PayloadFacts facts(tl::PayloadId id) const override {
    const auto& tensor = tensors_[id.index()];
    tl::PayloadFacts facts;
    facts.dtype = tensor.dtype;
    facts.storage = id.index() + 1;
    facts.sizes = tensor.sizes;
    facts.strides = tensor.strides;
    return facts;
  }
  tl::TensorRefPtr tensor(tl::PayloadId id) const override { return std::make_shared<Ref>(tensors_[id.index()]); }

 private:
  std::vector<tl::HostTensor> tensors_;
};

void add_values(tl::Capture& capture, bool sampled) {
  constexpr std::int64_t kSamples = 2;
  const auto held = std::make_shared<HeldTensors>();
  for (std::uint32_t event = 0; event < capture.events.size(); ++event) {
    const auto value = value_of(capture, event);
    capture.events[event].payload = event;
    capture.events[event].sampled = sampled;
    held->add(sampled ? tl::sample_elements(value, kSamples) : value);
  }
  capture.payloads = held;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    std::ifstream file(argv[1], std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto sources = tl::test::source_texts(std::filesystem::path(argv[1]).replace_extension(".source"));
    auto capture = tl::test::capture_from_text(text);
    if (text.find("\n# statistics\n") != std::string::npos) add_statistics(capture);
    for (const bool sampled : {false, true}) {
      if (text.find(sampled ? "\n# samples\n" : "\n# values\n") != std::string::npos) add_values(capture, sampled);
    }
    if (text.find("\n# sparse\n") != std::string::npos) {
      auto recording = tl::make_sparse(std::move(capture));
      recording.sources = sources;
      tl::write_sparse(recording, argv[2]);
    } else {
      tl::write_tlspec(tl::run_pipeline(std::move(capture), {}, {.sources = sources}), argv[2]);
    }
  } catch (const tl::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[1], error.what());
    return 1;
  }
  return 0;
}

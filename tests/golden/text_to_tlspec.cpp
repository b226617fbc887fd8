// text_to_tlspec TEXT DIR: runs the steps over a trace text as if a model had just run, and writes the recording;
// source texts of the model are in TEXT with the extension .source, if there is such a file. Makes the recordings of
// the golden tests, so that what is committed can be read and reviewed. A line `# sparse` in the text asks for a sparse
// recording, `# statistics` for statistics as if every f32 value had the elements 0, 1, 2 ….
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>
#include <vector>

#include "core/error.h"
#include "postprocess/pipeline.h"
#include "support/trace_fixtures.h"
#include "tensor/host_tensor.h"
#include "tlspec/writer.h"
#include "trace/statistics_recorder.h"

namespace {

void add_statistics(tl::Capture& capture) {
  tl::StatisticsRecorder recorder(tl::kAllStatistics);
  for (std::uint32_t event = 0; event < capture.events.size(); ++event) {
    const auto sizes = capture.shapes[static_cast<std::int32_t>(capture.events[event].shape)];
    std::vector<float> values(static_cast<std::size_t>(tl::checked_numel(sizes)));
    std::iota(values.begin(), values.end(), 0.0F);
    tl::HostTensor tensor{.dtype = tl::DType::kF32, .sizes = {sizes.begin(), sizes.end()}};
    tensor.strides = tl::contiguous_strides(sizes);
    tensor.storage = std::as_bytes(std::span(values));
    recorder.on_value(event, tensor);
  }
  capture.statistics = recorder.take();
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

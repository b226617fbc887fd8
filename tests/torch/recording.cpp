#include "torch/recording.h"

#include <memory>
#include <utility>

#include "postprocess/pipeline.h"

extern "C" tl::Engine* torchlens_engine_open();

namespace tl::test {

Trace record_file(const ZooFile& file, std::int64_t seed) {
  static const std::unique_ptr<Engine> engine(torchlens_engine_open());
  ModelRequest request;
  request.path = file.model.string();
  request.threads = 1;
  const auto session = engine->load(request);
  Capture capture;
  session->run(request_for(file, session->info().signature, seed), capture);
  return run_pipeline(std::move(capture));
}

}  // namespace tl::test

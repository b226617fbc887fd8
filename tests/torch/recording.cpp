#include "torch/recording.h"

#include <memory>
#include <utility>

#include "postprocess/pipeline.h"

extern "C" tl::Engine* torchlens_engine_open();

namespace tl::test {

Engine& engine() {
  static const std::unique_ptr<Engine> opened(torchlens_engine_open());
  return *opened;
}

Trace record_file(const ZooFile& file, std::int64_t seed) {
  const auto session = engine().load(model_request(file));
  Capture capture;
  session->run(request_for(file, session->info(), seed), capture);
  return run_pipeline(std::move(capture));
}

}  // namespace tl::test

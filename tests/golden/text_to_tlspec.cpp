// text_to_tlspec TEXT DIR: runs the steps over a trace text as if a model had just run, and writes the recording. Makes
// the recordings of the golden tests, so that what is committed can be read and reviewed.
#include <cstdio>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "postprocess/pipeline.h"
#include "support/trace_fixtures.h"
#include "tlspec/writer.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    std::ifstream file(argv[1], std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    tl::write_tlspec(tl::run_pipeline(tl::test::capture_from_text(text)), argv[2]);
  } catch (const tl::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[1], error.what());
    return 1;
  }
  return 0;
}

// Run by the build: `torchlens_list_operators FILE` writes what the engine knows, for looking at models without it.
#include <exception>
#include <memory>

#include "core/log.h"
#include "core/output_file.h"
#include "engine/engine.h"
#include "engine/known_operators.h"
#include "torchscript/registry_names.h"

extern "C" tl::Engine* torchlens_engine_open();

int main(int argc, char** argv) {
  if (argc != 2) {
    tl::write_error_lines("usage: torchlens_list_operators FILE");
    return 2;
  }
  try {
    const std::unique_ptr<tl::Engine> engine(torchlens_engine_open());
    tl::write_file(argv[1], tl::format_known_operators(
                                {engine->version(), engine->operator_names(), tl::lt::known_class_names()}));
  } catch (const std::exception& error) {
    tl::write_error_lines(error.what());
    return 1;
  }
  return 0;
}

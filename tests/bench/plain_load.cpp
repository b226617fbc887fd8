#include "plain_load.h"

#include <torch/csrc/jit/serialization/import.h>

void plain_load(const std::string& model) { torch::jit::load(model); }

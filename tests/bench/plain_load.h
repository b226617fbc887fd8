#pragma once

#include <string>

/// LibTorch's own loading of a TorchScript file, unchecked; the model is dropped again.
void plain_load(const std::string& model);

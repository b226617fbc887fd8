#pragma once

namespace tl::lt {

/// Registers the operators of `quantized_decomposed::*` with LibTorch's dispatcher. torch defines them in Python only
/// (torch/ao/quantization/fx/_decomposed.py, 2.13), and every int8 file of the PT2E flow calls them. The schemas are
/// Python's and the values are bitwise Python's: the same ATen operators in the same order. Each is one operator to
/// whoever watches the dispatcher, `_choose_qparams_per_token_asymmetric_impl` too, which Python decomposes.
///
/// What another library has registered under one of the names by then is kept; so call this after libraries were
/// loaded. Repeated calls do nothing. Arguments that do not fit raise c10::Error, as they raise in Python.
void register_quantized_decomposed();

}  // namespace tl::lt

// Precompiled for the whole plugin: every file here pays for these headers otherwise.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/script.h>

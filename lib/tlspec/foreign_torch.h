#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tensor/host_tensor.h"

namespace tl {

/// The one tensor of a torch.save archive that lies in memory. Throws Error as read_torch_pickle, and kUnsupportedKind
/// for another value than a strided tensor.
HostTensor read_torch_tensor(std::shared_ptr<const std::vector<std::byte>> bytes, const std::string& shown_name);

}  // namespace tl

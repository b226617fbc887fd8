#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "archive/exported_program.h"

namespace tl {

/// Names the children of named tuples, whose fields a program lists apart (`treespec_namedtuple_fields`).
void name_tuple_fields(PytreeSpec& spec, const std::unordered_map<std::string, std::vector<std::string>>& fields);

}  // namespace tl

# tl_embed_texts(OUT name=FILE …): a source file that defines `std::string_view embedded_text(std::string_view name)` over the
# files, whose @TORCHLENS_…@ are filled in. The lists of string and shape columns come from lib/trace/columns.def.
function(tl_embed_texts out)
  set(columns ${PROJECT_SOURCE_DIR}/lib/trace/columns.def)
  set(TORCHLENS_VERSION ${PROJECT_VERSION})
  foreach(kind IN ITEMS STRING SHAPE)
    set(unit "\"string\"")
    if(kind STREQUAL SHAPE)
      set(unit "\"row of shapes\"")
    endif()
    file(STRINGS ${columns} lines REGEX "^TL_COLUMN\\(.*, ${unit},")
    set(names "")
    foreach(line IN LISTS lines)
      if(line MATCHES "^TL_COLUMN\\(([a-z_0-9]+), ([a-z_0-9]+), int32_t, ${unit},")
        list(APPEND names "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}")
      endif()
    endforeach()
    list(JOIN names " " TORCHLENS_${kind}_COLUMNS)
  endforeach()
  set(rows "")
  set(inputs ${columns})
  foreach(pair IN LISTS ARGN)
    string(REGEX MATCH "^([^=]+)=(.*)$" matched "${pair}")
    set(name ${CMAKE_MATCH_1})
    cmake_path(ABSOLUTE_PATH CMAKE_MATCH_2 OUTPUT_VARIABLE file)
    list(APPEND inputs ${file})
    cmake_path(GET file FILENAME filename)
    configure_file(${file} ${CMAKE_CURRENT_BINARY_DIR}/embedded/${filename} @ONLY)
    file(READ ${CMAKE_CURRENT_BINARY_DIR}/embedded/${filename} text)
    string(APPEND rows "    Text{\"${name}\", R\"TL_TEXT(${text})TL_TEXT\"},\n")
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${inputs})
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [[
#include "embedded_text.h"

#include <array>

namespace tl::cli {
namespace {

struct Text {
  std::string_view name;
  std::string_view text;
};

constexpr std::array kTexts = {
@rows@};

}  // namespace

std::string_view embedded_text(std::string_view name) {
  for (const auto& row : kTexts) {
    if (row.name == name) return row.text;
  }
  return {};
}

}  // namespace tl::cli
]])
endfunction()

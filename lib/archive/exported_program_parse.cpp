#include <string>
#include <utility>

#include "archive/exported_layout.h"
#include "archive/exported_parts.h"
#include "archive/exported_program_reader.h"
#include "archive/limits.h"

namespace tl {
namespace {

JsonLimits program_limits() {
  JsonLimits limits;
  limits.bytes = limits::kProgramJsonBytes;
  limits.depth = limits::kProgramJsonDepth;
  limits.tokens = limits::kProgramJsonTokens;
  limits.string_bytes = limits::kProgramStringBytes;
  limits.non_finite_words = true;  // torch 2.6 writes them
  return limits;
}

int small_number(const ExportedPlace& place, JsonRef value, std::string_view what) {
  const std::int64_t number = expect_integer(place, value, what);
  constexpr std::int64_t kMost = 1'000'000;
  if (number < 0 || number > kMost) place.damaged(std::string(what) + " is " + std::to_string(number));
  return static_cast<int>(number);
}

/// Reads and judges the version; until torch 2.2 it was one number.
void read_version(const ExportedPlace& place, JsonRef json, ExportedProgram& program) {
  if (const JsonRef version = optional_member(place, json, "torch_version")) {
    program.torch_version = expect_string(place, version, "torch_version");
  } else {
    program.torch_version = "<=2.4";
  }
  const JsonRef version = required(place, json, "schema_version");
  if (version.is_object()) {
    program.schema_major = small_number(place, required(place, version, "major"), "schema major");
    program.schema_minor = small_number(place, required(place, version, "minor"), "schema minor");
  } else {
    program.schema_major = small_number(place, version, "schema_version");
  }
  if (program.schema_major == kExportedSchemaMajor) return;
  throw unsupported_schema(place.where, program.schema_major, program.schema_minor, program.torch_version);
}

void read_ranges(const ExportedPlace& place, JsonRef json, ExportedProgram& program) {
  for (const JsonMember member : expect_object(place, json, "range_constraints").members()) {
    ExportedRange range;
    range.symbol = member.key;
    if (const JsonRef min = optional_member(place, member.value, "min_val")) {
      range.min = expect_integer(place, min, "min_val");
    }
    if (const JsonRef max = optional_member(place, member.value, "max_val")) {
      range.max = expect_integer(place, max, "max_val");
    }
    program.ranges.push_back(std::move(range));
  }
}

std::vector<std::string> strings_of(const ExportedPlace& place, JsonRef json, std::string_view what) {
  std::vector<std::string> strings;
  if (!json) return strings;
  for (const JsonRef item : expect_array(place, json, what).items()) {
    strings.emplace_back(expect_string(place, item, what));
  }
  return strings;
}

}  // namespace

ExportedProgram parse_exported_program(std::string_view json, const std::string& where) {
  ExportedProgram program;
  const JsonTape tape(json, where, program_limits());
  ExportedReading reading{.place = {}, .program = program};
  reading.place.where = where;
  const ExportedPlace& place = reading.place;
  const JsonRef root = expect_object(place, tape.root(), "the program");
  read_version(place, root, program);
  const auto verifiers = strings_of(place, optional_member(place, root, "verifiers"), "verifiers");
  if (!verifiers.empty()) program.dialect = verifiers.front();
  for (const JsonMember member :
       expect_object(place, required(place, root, "opset_version"), "opset_version").members()) {
    program.opset_versions.emplace_back(member.key, expect_integer(place, member.value, "opset version"));
  }
  read_ranges(place, required(place, root, "range_constraints"), program);
  program.guards = strings_of(place, optional_member(place, root, "guards_code"), "guards_code");

  const JsonRef module = expect_object(place, required(place, root, "graph_module"), "graph_module");
  ExportedScope scope;
  program.graph = read_exported_graph(reading, required(place, module, "graph"), {}, scope);
  read_exported_signature(reading, required(place, module, "signature"), scope);
  if (const JsonRef calls = optional_member(place, module, "module_call_graph")) {
    read_exported_module_calls(reading, calls, optional_member(place, module, "treespec_namedtuple_fields"), scope);
  }
  return program;
}

}  // namespace tl

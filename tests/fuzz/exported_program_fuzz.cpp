// A program that torch.export.save wrote. The input is the JSON of the program and, after NULs, those of its weights
// and constants and its sample inputs; they are put into an archive that has two payloads to point at.

#include <algorithm>
#include <memory>
#include <string>

#include "archive/exported_program_reader.h"
#include "archive/zip_directory.h"
#include "fuzz_input.h"
#include "stored_zip.h"

#ifdef TL_WITH_LIBFUZZER
#include "json_mutator.h"

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  return tl::fuzz::mutate_json_input(data, size, max_size, seed);
}
#endif

namespace {

using tl::fuzz::answers;

std::string_view next_part(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('\0'), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

/// Everything that is read of an archive.
void read(const tl::fuzz::StoredZip& zip) {
  const auto archive = std::make_shared<const std::string>(zip.finish());
  answers([&] {
    const tl::ZipDirectory directory(tl::fuzz::as_bytes(*archive), "x.pt2", archive);
    for (const std::string& name : tl::exported_program_names(directory)) {
      for (const bool payloads : {false, true}) {
        answers([&] { tl::read_exported_program(directory, {.model = name, .payloads = payloads}); });
      }
      answers([&] { tl::read_sample_inputs(directory, name, {"Point", "Pose", "Result"}); });
    }
  });
}

/// The layout before torch 2.8.
void read_flat(std::string_view program, std::string_view pickles) {
  tl::fuzz::StoredZip zip;
  zip.add("version", "8.7");
  zip.add("serialized_exported_program.json", program);
  for (const char* name : {"serialized_state_dict.pt", "serialized_constants.pt", "serialized_example_inputs.pt"}) {
    zip.add(name, pickles);
  }
  read(zip);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest = tl::fuzz::as_text(data, size);
  const std::string_view program = next_part(rest);
  const std::string_view weights = next_part(rest);
  const std::string_view constants = next_part(rest);
  answers([&] { tl::parse_exported_program(program, "model.json"); });
  if (program.size() < 2'000) answers([&] { tl::parse_pytree_spec(program, "in_spec"); });

  tl::fuzz::StoredZip zip;
  zip.add("m/archive_format", "pt2");
  zip.add("m/archive_version", "0");
  zip.add("m/byteorder", "little");
  zip.add("m/.data/version", "6\n");
  zip.add("m/models/model.json", program);
  zip.add("m/data/weights/model_weights_config.json", weights.empty() ? R"({"config": {}})" : weights);
  zip.add("m/data/constants/model_constants_config.json", constants.empty() ? R"({"config": {}})" : constants);
  const std::string payload(64, '\1');
  zip.add("m/data/weights/weight_0", std::string_view(payload).substr(0, 24));
  zip.add("m/data/weights/weight_1", std::string_view(payload).substr(0, 8));
  zip.add("m/data/constants/tensor_0", payload);
  zip.add("m/data/sample_inputs/model.pt", rest);
  read(zip);
  read_flat(program, rest);
  return 0;
}

// What is done to look at a model file. The input is a list of entries (name from a list, 16-bit length, content) that
// is put into an archive whose container is sound, or with a leading 0xff the bytes of a file that is none.

#include <array>
#include <memory>
#include <string>

#include "archive/model_kind.h"
#include "archive/torchscript_scan.h"
#include "archive/unpickler.h"
#include "archive/zip_directory.h"
#include "fuzz_input.h"
#include "stored_zip.h"

namespace {

using tl::fuzz::answers;

constexpr std::array kNames = {
    "m/data.pkl",
    "m/constants.pkl",
    "m/code/__torch__/m.py",
    "m/code/__torch__/n.py",
    "m/version",
    "m/.data/version",
    "m/byteorder",
    "m/data/0",
    "m/constants/0",
    "m/archive_format",
    "m/archive_version",
    "m/models/model.json",
    "m/bytecode.pkl",
    "m/producerVersion",
    "m/data/aotinductor/model/a.so",
    "serialized_exported_program.json",
    "version",
    "m/traced_inputs.pkl",
    "m/attributes.pkl",
    "m/CODE/__torch__/m.py",
};

void look(const std::string& file, const tl::ZipDirectory* zip) {
  answers([&] {
    const auto info = tl::inspect_model_file("x.pt", tl::fuzz::as_bytes(file), zip);
    tl::describe(info.kind);
    tl::refusal_for(info);
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tl::fuzz::FuzzInput input(data, size);
  if (size > 0 && data[0] == 0xff) {
    look(std::string(tl::fuzz::as_text(data + 1, size - 1)), nullptr);
    return 0;
  }
  tl::fuzz::StoredZip zip;
  while (!input.empty()) {
    const std::uint8_t name = input.byte();
    zip.add(kNames[name % kNames.size()], input.text(input.word()));
  }
  const auto archive = std::make_shared<const std::string>(zip.finish());
  answers([&] {
    const tl::ZipDirectory directory(tl::fuzz::as_bytes(*archive), "x.pt", archive);
    look(*archive, &directory);
    answers([&] {
      tl::ScriptClasses classes;
      tl::unsafe_uses(tl::scan_torchscript(directory, &classes));
    });
    const std::string root = tl::archive_root(directory);
    for (const char* pickle : {"data", "constants"}) {
      answers([&] {
        tl::read_torch_pickle(directory, root + pickle + ".pkl", root + pickle + "/",
                              {.script_classes = true, .tensors_without_data = true, .sizes_only = true});
      });
    }
  });
  return 0;
}

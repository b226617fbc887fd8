// Damaged copies of small real files: whatever comes out is a value or an Error, never a crash, a hang or another
// exception. The seeds are fixed.

#include <gmock/gmock.h>

#include <random>

#include "archive/model_kind.h"
#include "archive/pickle_scanner.h"
#include "archive/torchscript_scan.h"
#include "archive/unpickler.h"
#include "archive/zip_directory.h"
#include "test_files.h"

namespace tl {
namespace {

using test::as_bytes;

constexpr int kRounds = 3'000;

/// Changes 1 to 4 places: flips, sets, inserts, removes, copies bytes.
std::string mutated(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t limit) { return limit == 0 ? 0 : static_cast<std::size_t>(random()) % limit; };
  for (std::size_t changes = 1 + below(4); changes > 0 && !text.empty(); --changes) {
    const std::size_t at = below(text.size());
    switch (below(6)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        text[at] = static_cast<char>(below(256));
        break;
      case 2:
        text[at] = "\x00\xff\x7f\x80"[below(4)];
        break;
      case 3:
        text.insert(at, 1, static_cast<char>(below(256)));
        break;
      case 4:
        text.erase(at, 1 + below(4));
        break;
      default:
        text.insert(at, text.substr(below(text.size()), 1 + below(16)));
        break;
    }
  }
  return text;
}

struct Counts {
  int values = 0;
  int errors = 0;
};

Counts run_mutations(const std::string& original, unsigned seed, const std::function<void(const std::string&)>& read) {
  std::mt19937 random(seed);
  Counts counts;
  for (int i = 0; i < kRounds; ++i) {
    const std::string text = mutated(original, random);
    try {
      read(text);
      ++counts.values;
    } catch (const Error& error) {
      EXPECT_NE(error.code, ErrorCode::kInternal) << error.message;
      ++counts.errors;
    }
  }
  return counts;
}

void read_everything(const std::string& file) {
  const ZipDirectory zip(as_bytes(file), "m.pt");
  const ModelFileInfo info = inspect_model_file("m.pt", as_bytes(file), &zip);
  refusal_for(info);
  const std::string root = archive_root(zip);
  read_torch_pickle(zip, root + "data.pkl", root + "data/", {.script_classes = true});
  scan_torchscript(zip);
  zip.verify_crc();
}

TEST(Mutations, OfTorchSaveFiles) {
  for (const char* name : {"plain.pt", "deflated.pt", "values.pt", "quantised.pt"}) {
    const Counts counts = run_mutations(test::file_text(test::fixture(name)), 1, read_everything);
    EXPECT_GT(counts.errors, kRounds / 4) << name;
  }
}

TEST(Mutations, OfPickles) {
  for (const char* name : {"values.pt", "values_protocol4.pt", "sparse.pt", "doubling.pt", "cycle.pt"}) {
    const std::string file = test::file_text(test::fixture(name));
    const ZipDirectory zip(as_bytes(file), name);
    const std::string root = archive_root(zip);
    const Counts counts = run_mutations(zip.read_text(zip.at(root + "data.pkl")), 2, [](const std::string& pickle) {
      scan_pickle(as_bytes(pickle), "p");
      unpickle(as_bytes(pickle), "p", {.script_classes = true});
    });
    EXPECT_GT(counts.errors, 0) << name;
  }
}

TEST(Mutations, OfATorchScriptFile) {
  const auto path = test::shared_dir() / "zoo/nms_head.ts.pt";
  TL_NEEDS_SHARED(path);
  const Counts counts = run_mutations(test::file_text(path), 3, read_everything);
  EXPECT_GT(counts.errors, 0);
}

TEST(Mutations, OfASource) {
  const std::string source =
      "class M(Module):\n  __parameters__ = [\"a\", ]\n  foo : __torch__.torch.classes.a.B\n"
      "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    _0 = torch.add(x, getattr(self, \"0\"), "
      "alpha=1)\n"
      "    if bool(torch.gt(_0, 1.5e-3)):\n      y = ops.quantized.add(x, -1, \"it's\")\n    elif True:\n      y = x\n"
      "    else:\n      pass  # nothing\n    return '''z'''\n";
  const Counts counts =
      run_mutations(source, 4, [](const std::string& text) { scan_torchscript_source(text, "code/x.py"); });
  EXPECT_GT(counts.errors, 0);
  EXPECT_GT(counts.values, kRounds / 10);
}

}  // namespace
}  // namespace tl

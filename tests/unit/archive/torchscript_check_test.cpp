#include "archive/torchscript_check.h"

#include <gmock/gmock.h>

#include "archive/zip_directory.h"
#include "test_files.h"

namespace tl {
namespace {

using test::error_of;
using test::little_endian;
using testing::AllOf;
using testing::HasSubstr;

// --- pickles as TorchScript's pickler writes them (protocol 2; opcodes of CPython, Lib/pickletools.py)
// -----------------

const std::string kProto = "\x80\x02";

std::string text(const std::string& value) { return "X" + little_endian(value.size(), 4) + value; }
std::string number(std::uint32_t value) { return "J" + little_endian(value, 4); }
std::string pair(std::uint32_t a, std::uint32_t b) { return number(a) + number(b) + "\x86"; }

/// A tensor of [2, 3] floats whose storage has the given key and number of elements.
std::string tensor(const std::string& key, std::uint32_t elements, std::uint32_t rows = 2) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" + text(key) +
         text("cpu") + number(elements) + "tQ" + number(0) + pair(rows, 3) + pair(3, 1) + "\x89" +
         "ccollections\nOrderedDict\n)RtR";
}

/// An object of class M with one attribute.
std::string module(const std::string& name, const std::string& value) {
  return "c__torch__\nM\n)\x81}(" + text(name) + value + "ub";
}

std::string module_pickle(const std::string& name, const std::string& value) {
  return kProto + module(name, value) + ".";
}

/// Source positions of one piece, texts in a table of two strings.
std::string positions_pickle(const std::string& source, std::uint32_t piece, std::uint32_t file, std::uint32_t start,
                             std::uint32_t end, const std::string& more_pieces = {}) {
  const std::string range = "((ctorch.jit._pickle\nbuild_intlist\n](" + number(piece) + more_pieces + "e\x85R" +
                            number(file) + number(1) + "t" + number(start) + number(end) + "t";
  return kProto + "(" + text("FORMAT_WITH_STRING_TABLE") + "(" + text(source) + text("m.py") + "t((" + number(0) +
         range + number(0) + "ttt.";
}

struct Archive {
  std::string data = module_pickle("weight", tensor("0", 6));
  std::string constants = kProto + ").";
  std::string storage = std::string(24, '\1');
  std::string positions = positions_pickle("abc", 0, 0, 0, 3);

  std::string bytes() const {
    return test::make_zip({test::stored("m/data.pkl", data), test::stored("m/data/0", storage),
                           test::stored("m/constants.pkl", constants), test::stored("m/version", "3\n"),
                           test::stored("m/code/__torch__.py", "class M(Module):\n  weight : Tensor\n"),
                           test::stored("m/code/__torch__.py.debug_pkl", positions)});
  }
};

void check(const std::string& bytes) { check_torchscript(ZipDirectory(test::as_bytes(bytes), "m.pt")); }

Error refusal(const Archive& archive) {
  const std::string bytes = archive.bytes();
  return error_of([&] { check(bytes); });
}

TEST(TorchScriptCheck, AWholeArchivePasses) {
  const std::string bytes = Archive().bytes();
  EXPECT_NO_THROW(check(bytes));
  EXPECT_TRUE(has_source_positions(ZipDirectory(test::as_bytes(bytes), "m.pt")));
}

TEST(TorchScriptCheck, EveryChecksumIsVerified) {
  auto piece = test::stored("m/data/7", "abc");
  piece.crc ^= 1;
  const std::string bytes = test::make_zip({test::stored("m/data.pkl", module_pickle("n", "N")), piece});
  const Error error = error_of([&] { check(bytes); });
  EXPECT_EQ(error.code, ErrorCode::kFileDamaged);
  EXPECT_THAT(error.message, AllOf(HasSubstr("m/data/7"), HasSubstr("checksum")));
}

TEST(TorchScriptCheck, ATensorIsNamedByItsPlaceInTheModule) {
  Archive archive;
  archive.data = module_pickle("layer", module("weight", tensor("1", 6)));
  EXPECT_THAT(refusal(archive).message,
              AllOf(HasSubstr("layer.weight: "), HasSubstr("m/data/1"), HasSubstr("24 bytes is not in the file")));
}

TEST(TorchScriptCheck, TensorsLieInsideTheirStorages) {
  Archive archive;
  archive.storage.pop_back();
  EXPECT_THAT(refusal(archive).message, AllOf(HasSubstr("weight: "), HasSubstr("has 23 bytes, its tensors say 24")));
  archive.storage.push_back('\1');
  archive.data = module_pickle("weight", tensor("0", 6, 3));
  EXPECT_THAT(refusal(archive).message, AllOf(HasSubstr("weight: "), HasSubstr("9 elements"), HasSubstr("24 bytes")));
}

TEST(TorchScriptCheck, TheRootsAreWhatLibTorchTakesThemFor) {
  Archive archive;
  archive.data = kProto + "].";
  EXPECT_THAT(refusal(archive).message, HasSubstr("m/data.pkl: holds a list"));
  archive = {};
  archive.constants = kProto + "].";
  EXPECT_THAT(refusal(archive).message,
              HasSubstr("m/constants.pkl: holds a list where a TorchScript file has a tuple"));
  archive = {};
  archive.data.clear();
  EXPECT_EQ(refusal(archive).code, ErrorCode::kFileDamaged);
}

TEST(TorchScriptCheck, ForeignNamesAreRefusedInEveryPickle) {
  for (std::string Archive::*pickle : {&Archive::data, &Archive::constants, &Archive::positions}) {
    Archive archive;
    archive.*pickle = kProto + "cposix\nsystem\n(" + text("true") + "tR.";
    const Error error = refusal(archive);
    EXPECT_THAT(error.message, HasSubstr("posix.system"));
    EXPECT_EQ(exit_code_of(error.code), ExitCode::kFile) << error.message;
  }
}

TEST(TorchScriptCheck, AMemoNumberOutOfTurnIsRefused) {
  // LibTorch allocates twice the number of entries it names: 4 GB for these eight bytes.
  Archive archive;
  archive.data = kProto + "]r" + little_endian(0x0fffffff, 4) + ".";
  const Error error = refusal(archive);
  EXPECT_EQ(error.code, ErrorCode::kFileHostile);
  EXPECT_THAT(error.message, HasSubstr("memo entry 268435455"));
}

TEST(TorchScriptCheck, NoPickleHidesBehindTheCaseOfItsName) {
  const std::string evil = kProto + "cposix\nsystem\n(" + text("true") + "tR.";
  for (const char* name : {"m/CONSTANTS.pkl", "m/traced_inputs.PKL", "m/code/__torch__.py.DEBUG_pkl"}) {
    const std::string bytes =
        test::make_zip({test::stored("m/data.pkl", module_pickle("n", "N")), test::stored(name, evil)});
    EXPECT_EQ(error_of([&] { check(bytes); }).code, ErrorCode::kFileHostile) << name;
  }
}

TEST(TorchScriptCheck, SourcePositionsAreAPickleToo) {
  Archive archive;
  archive.positions = kProto + std::string(300'000, ']') + ".";
  EXPECT_EQ(refusal(archive).code, ErrorCode::kFileDamaged);
}

TEST(TorchScriptCheck, SourcePositionsLieInsideTheirTexts) {
  struct Wrong {
    std::string pickle;
    const char* words;
  };
  const Wrong wrongs[] = {
      {positions_pickle("abc", 2, 0, 0, 3), "text 2 of 2"},
      {positions_pickle("abc", 0, 9, 0, 3), "text 9 of 2"},
      {positions_pickle("abc", ~0U, 0, 0, 3), "text -1 of 2"},
      {positions_pickle("abc", 0, 0, 0, 4), "the range 0 to 4 in a text of 3 bytes"},
      {positions_pickle("abc", 0, 0, 2, 1), "the range 2 to 1"},
      {positions_pickle("abc", 0, 0, 0, 3, number(0)), "a piece of text that is no line"},
      {positions_pickle("a\nc\n", 0, 0, 0, 3, number(0)), "a piece of text that is no line"},
      {kProto + ").", "an empty tuple"},
      {kProto + "].", "a list where a tuple belongs"},
      {kProto + "(" + number(1) + "t.", "a int where a tuple belongs"},
      {kProto + "(" + text("FORMAT_WITH_STRING_TABLE") + "t.", "a table without rows"},
  };
  for (const Wrong& wrong : wrongs) {
    Archive archive;
    archive.positions = wrong.pickle;
    const Error error = refusal(archive);
    EXPECT_EQ(error.code, ErrorCode::kFileDamaged);
    EXPECT_THAT(error.message, HasSubstr(wrong.words));
  }
}

// --- sparse tensors
// ----------------------------------------------------------------------------------------------------

/// A sparse [4, 5] matrix of two floats; its indices are the four int64 of storage 1.
std::string sparse_coo() {
  const auto strided = [](const std::string& type, const std::string& key, std::uint32_t elements,
                          const std::string& sizes, const std::string& strides) {
    return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + type + "\n" + text(key) +
           text("cpu") + number(elements) + "tQ" + number(0) + sizes + strides + "\x89" +
           "ccollections\nOrderedDict\n)RtR";
  };
  return "ctorch._utils\n_rebuild_sparse_tensor\n(" + number(1) + "(" + number(4) + number(5) + "t\x89" +
         strided("LongStorage", "1", 4, pair(2, 2), pair(2, 1)) +
         strided("FloatStorage", "0", 2, number(2) + "\x85", number(1) + "\x85") + "ccollections\nOrderedDict\n)RtR";
}

std::string sparse_archive(std::uint64_t row, std::uint64_t column) {
  const std::string indices =
      little_endian(0, 8) + little_endian(row, 8) + little_endian(1, 8) + little_endian(column, 8);
  return test::make_zip({test::stored("m/data.pkl", module_pickle("weight", sparse_coo())),
                         test::stored("m/data/0", std::string(8, '\0')), test::stored("m/data/1", indices)});
}

TEST(TorchScriptCheck, IndicesOfSparseTensorsLieInsideTheirShape) {
  EXPECT_NO_THROW(check(sparse_archive(3, 4)));
  const Error row = error_of([] { check(sparse_archive(4, 0)); });
  EXPECT_THAT(row.message, HasSubstr("the index 4 in a dimension of 4"));
  const Error column = error_of([] { check(sparse_archive(0, ~std::uint64_t{0})); });
  EXPECT_THAT(column.message, HasSubstr("the index -1 in a dimension of 5"));
}

TEST(TorchScriptCheck, EveryTorchScriptFileOfTheReferencesPasses) {
  TL_NEEDS_SHARED(test::shared_dir() / "zoo");
  std::size_t files = 0;
  for (const char* ending : {".ts.pt", ".trace.pt"}) {
    for (const auto& path : test::shared_files("zoo", ending)) {
      if (path.filename() == "neg_truncated.ts.pt") continue;
      SCOPED_TRACE(path.filename().string());
      const auto file = MappedFile::open(path);
      EXPECT_NO_THROW(check_torchscript(ZipDirectory(file->bytes(), path.filename().string(), file)));
      ++files;
    }
  }
  EXPECT_GT(files, 80u);
}

}  // namespace
}  // namespace tl

#include "archive/pickle_scanner.h"

#include <gmock/gmock.h>

#include "test_files.h"

namespace tl {
namespace {

using namespace std::string_view_literals;
using test::as_bytes;
using test::error_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> globals_of(std::string_view pickle) { return scan_pickle(as_bytes(pickle), "p").globals; }

// The pickles are what Python 3.11 gives for pickle.dumps([S(), collections.OrderedDict()], protocol=…), where S
// reduces to (os.system, ("ls",)).
TEST(PickleScanner, ListsGlobalsOfEveryProtocol) {
  EXPECT_THAT(globals_of("(lp0\ncposix\nsystem\np1\n(Vls\np2\ntp3\nRp4\naccollections\nOrderedDict\np5\n(tRp6\na."sv),
              ElementsAre("posix.system", "collections.OrderedDict"));
  EXPECT_THAT(globals_of("\x80\x02]q\0(cposix\nsystem\nq\1X\2\0\0\0lsq\2\x85q\3Rq\4"
                         "ccollections\nOrderedDict\nq\5)Rq\6e."sv),
              ElementsAre("posix.system", "collections.OrderedDict"));
  EXPECT_THAT(globals_of("\x80\4\x95"
                         "B\0\0\0\0\0\0\0]\x94(\x8c\5posix\x94\x8c\6system\x94\x93\x94\x8c\2ls\x94\x85\x94R\x94\x8c\x0b"
                         "collections\x94\x8c\x0bOrderedDict\x94\x93\x94)R\x94"
                         "e."sv),
              ElementsAre("posix.system", "collections.OrderedDict"));
}

TEST(PickleScanner, FollowsNamesThroughTheMemo) {
  // "os" and "system" are memoised, dropped, and fetched again.
  EXPECT_THAT(globals_of("\x80\4\x8c\2os\x94"
                         "0\x8c\6system\x94"
                         "0h\0h\1\x93."sv),
              ElementsAre("os.system"));
  // A name that only execution would yield is no plain one.
  EXPECT_THAT(globals_of("\x80\4\x8c\2osN0\x8c\6system\x93."sv), ElementsAre("?"));
}

TEST(PickleScanner, PlainValuesHaveNone) {
  const PickleScan scan =
      scan_pickle(as_bytes("\x80\x02]q\0(K\1X\1\0\0\0aq\1}q\2X\1\0\0\0bq\3G@\4\0\0\0\0\0\0se.rest"sv), "p");
  EXPECT_THAT(scan.globals, IsEmpty());
  EXPECT_EQ(scan.protocol, 2);
  EXPECT_EQ(scan.bytes, 39u);
  EXPECT_FALSE(scan.has_extensions);
  EXPECT_TRUE(scan_pickle(as_bytes("\x80\x02\x82\1."sv), "p").has_extensions);
}

TEST(PickleScanner, RefusesDamage) {
  for (const std::string_view pickle :
       {""sv, "\x80\x02"sv,
        "X\xff\xff\xff\xff"
        "abc."sv,
        "\x8d\xff\xff\xff\xff\xff\xff\xff\xff."sv, "cposix"sv, "\x80\x06."sv, "\xff."sv}) {
    EXPECT_EQ(error_of([&] { globals_of(pickle); }).code, ErrorCode::kFileDamaged);
  }
}

}  // namespace
}  // namespace tl

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "core/digest.h"
#include "core/error.h"
#include "sample_trace.h"
#include "support/temp_directory.h"
#include "tlspec/column_file.h"
#include "tlspec/manifest.h"
#include "tlspec/reader.h"
#include "tlspec/writer.h"
#include "trace/args.h"

namespace tl {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

void overwrite(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
}

/// A recording of the sample that tests damage.
class TlspecHostile : public testing::Test {
 protected:
  TlspecHostile() { write_tlspec(test::make_sample_trace(), path_); }

  /// Replaces a file and lets the manifest agree with it, so that the content itself is looked at.
  void replace(const std::string& name, const std::string& bytes) {
    overwrite(path_ / name, bytes);
    auto document = nlohmann::ordered_json::parse(read_text(path_ / kManifestFile));
    for (auto* files : {&document["files"], &document["run"]["volatile"]["files"]}) {
      for (auto& file : *files) {
        if (file["name"] != name) continue;
        file["bytes"] = bytes.size();
        file["digest"] = digest_hex(std::as_bytes(std::span(bytes)));
      }
    }
    overwrite(path_ / kManifestFile, document.dump());
  }

  /// Writes the columns of `trace` into the recording, unchecked.
  void replace_columns(const Trace& trace) {
    const auto& rows = trace.payloads;
    StoredPayloadColumns stored;
    stored.encoding.assign(rows.encoding.begin(), rows.encoding.end());
    stored.offset.assign(rows.offset.begin(), rows.offset.end());
    stored.shard.assign(rows.shard.begin(), rows.shard.end());
    write_columns(dir_ / "columns", trace, stored);
    replace(kColumnsFile, read_text(dir_ / "columns"));
    auto document = nlohmann::ordered_json::parse(read_text(path_ / kManifestFile));
    for (const auto& [name, count] : column_counts(trace)) document["counts"][name] = count;
    overwrite(path_ / kManifestFile, document.dump());
  }

  /// The recording as it was written, in memory of its own: damage to the files must not show through.
  Trace original() const {
    const auto mapped = read_tlspec(path_);
    Trace copy(mapped);
    return copy;
  }

  Error refusal(const ReadOptions& options = {}) const {
    try {
      read_tlspec(path_, options);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "accepted";
    return Error(ErrorCode::kInternal, "nothing thrown");
  }

  void expect_damaged(const char* text) const {
    const auto error = refusal();
    EXPECT_EQ(error.code, ErrorCode::kFileDamaged) << error.message;
    EXPECT_THAT(error.message, HasSubstr(text));
  }

  /// Reading refuses with an error of ours or gives a recording that every accessor can walk.
  void read_or_refuse() const {
    try {
      test::walk(read_tlspec(path_));
    } catch (const Error& error) {
      EXPECT_NE(error.code, ErrorCode::kInternal) << error.message;
    }
  }

  TempDirectory dir_;
  fs::path path_ = dir_ / "run.tlspec";
};

std::vector<std::string> all_files() { return {kManifestFile, kColumnsFile, kTimingFile, "tensors-00000.safetensors"}; }

TEST_F(TlspecHostile, TruncatedFilesAreRefused) {
  for (const auto& name : all_files()) {
    const auto whole = read_text(path_ / name);
    for (std::size_t part = 0; part < 12; ++part) {
      const auto size = part < 6 ? part * 3 : whole.size() - 3 - (part - 6) * whole.size() / 7;
      overwrite(path_ / name, whole.substr(0, size));
      const auto error = refusal();
      EXPECT_THAT(error.message, HasSubstr(name));
      if (name != kManifestFile) {
        EXPECT_THAT(error.message, HasSubstr("has " + std::to_string(size) + " bytes, manifest.json says"));
      }
    }
    overwrite(path_ / name, whole);
  }
}

TEST_F(TlspecHostile, TruncatedFilesThatTheManifestAgreesWithAreRefused) {
  for (const auto& name : {std::string(kColumnsFile), std::string("tensors-00000.safetensors")}) {
    const auto whole = read_text(path_ / name);
    for (std::size_t part = 0; part < 12; ++part) {
      replace(name, whole.substr(0, part < 6 ? part * 3 : whole.size() - 1 - (part - 6) * whole.size() / 7));
      const auto error = refusal({.verify_digests = true});
      EXPECT_EQ(error.code, ErrorCode::kFileDamaged) << error.message;
      EXPECT_THAT(error.message, HasSubstr(name));
    }
    replace(name, whole);
  }
  read_tlspec(path_, {.verify_digests = true});
}

TEST_F(TlspecHostile, AChangedByteOfTheTablesIsSeenUnasked) {
  for (const std::string name : {kColumnsFile, kTimingFile}) {
    auto text = read_text(path_ / name);
    for (std::size_t at = 3; at < text.size(); at += text.size() / 9) {
      text[at] ^= 1;
      overwrite(path_ / name, text);
      const auto error = refusal();
      EXPECT_EQ(error.code, ErrorCode::kFileDamaged) << error.message;
      EXPECT_THAT(error.message, HasSubstr(name + ": has the digest"));
      text[at] ^= 1;
    }
    overwrite(path_ / name, text);
  }
  read_tlspec(path_);
}

TEST_F(TlspecHostile, AnyByteOfTheColumnsHeaderMayBeWrong) {
  const auto whole = read_text(path_ / kColumnsFile);
  const auto header = 8 + static_cast<std::size_t>(static_cast<unsigned char>(whole[0])) +
                      256 * static_cast<std::size_t>(static_cast<unsigned char>(whole[1]));
  std::mt19937 random(20);
  std::fstream file(path_ / kColumnsFile, std::ios::binary | std::ios::in | std::ios::out);
  for (std::size_t at = 0; at < header; at += 1 + random() % 16) {
    file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(random()));
    file.flush();
    try {
      Trace trace;
      read_columns(path_ / kColumnsFile, trace);
    } catch (const Error& error) {
      EXPECT_NE(error.code, ErrorCode::kInternal) << error.message;
    }
    if (at % 32 == 0) read_or_refuse();
    file.seekp(static_cast<std::streamoff>(at)).put(whole[at]);
  }
  file.close();
  read_tlspec(path_, {.verify_digests = true});
}

TEST_F(TlspecHostile, AnyByteOfTheContentMayBeWrong) {
  std::mt19937 random(21);
  for (const auto& name : all_files()) {
    const auto whole = read_text(path_ / name);
    std::fstream file(path_ / name, std::ios::binary | std::ios::in | std::ios::out);
    for (int i = 0; i < 150; ++i) {
      const auto at = random() % whole.size();
      file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(random()));
      file.flush();
      read_or_refuse();
      file.seekp(static_cast<std::streamoff>(at)).put(whole[at]);
      file.flush();
    }
  }
}

/// Whether the documentation of a column says that it is a row number or a code.
bool is_index(std::string_view unit) {
  return unit.starts_with("row of ") || unit == "string" || unit.starts_with("index into ");
}

TEST_F(TlspecHostile, RowNumbersOutOfRangeAreRefused) {
  int poked = 0;
  auto trace = original();
  for (const std::int32_t value : {-2, 1'000'000, std::numeric_limits<std::int32_t>::min()}) {
    for_each_table(trace, [&](std::string_view table, auto& rows, auto&& visit) {
      visit(rows, [&](std::string_view field, auto& column, std::string_view unit, std::string_view) {
        if constexpr (std::is_same_v<std::decay_t<decltype(column)>, Column<std::int32_t>>) {
          if (!is_index(unit)) return;
          const auto name = std::string(table) + "." + std::string(field);
          ASSERT_FALSE(column.empty()) << name << " has no row in the sample";
          const auto before = column.rows().back();
          column.rows().back() = value;
          replace_columns(trace);
          const auto error = refusal();
          EXPECT_EQ(error.code, ErrorCode::kFileDamaged) << name;
          EXPECT_THAT(error.message,
                      HasSubstr(name + "[" + std::to_string(column.size() - 1) + "] is " + std::to_string(value)));
          column.rows().back() = before;
          ++poked;
        }
      });
    });
  }
  EXPECT_GT(poked, 150);
}

TEST_F(TlspecHostile, EnumerationsOutOfRangeAreRefused) {
  auto trace = original();
  const auto poke = [&](Column<std::uint8_t>& column, std::uint8_t value, const char* text) {
    const auto before = column.rows()[0];
    column.rows()[0] = value;
    replace_columns(trace);
    expect_damaged(text);
    column.rows()[0] = before;
  };
  poke(trace.ops.kind, 4, "ops.kind[0] is 4, the greatest known value is 3");
  poke(trace.params.kind, 3, "params.kind[0] is 3");
  poke(trace.layers.grouping_basis, 2, "layers.grouping_basis[0] is 2");
  poke(trace.modules.training, 3, "modules.training[0] is 3");
  poke(trace.branches.arm, 2, "branches.arm[0] is 2");
  poke(trace.flow.tag, 10, "flow.tag[0] is 10");
  poke(trace.payloads.encoding, 7, "payloads.encoding[0] is 7");
}

TEST_F(TlspecHostile, ContradictingRangesAreRefused) {
  const auto written = original();
  const auto refused = [&](const char* text, auto&& damage) {
    auto trace = written;
    damage(trace);
    replace_columns(trace);
    expect_damaged(text);
  };
  refused("ops.edge_begin[5] is 0, the row before has", [](Trace& t) { t.ops.edge_begin.rows()[5] = 0; });
  refused("the first belongs to no op", [](Trace& t) { std::fill_n(t.ops.edge_begin.rows().begin(), 3, 1); });
  refused("the op it belongs to is row 2", [](Trace& t) { t.edges.parent.rows()[0] = 2; });
  refused("following it leads back to row", [](Trace& t) {
    t.module_calls.parent_call.rows()[0] = 1;
    t.module_calls.parent_call.rows()[1] = 0;
  });
  refused("modules.parent[0] is 0, following it leads back to row 0", [](Trace& t) { t.modules.parent.rows()[0] = 0; });
  refused("branches.parent[0] is 0, following", [](Trace& t) { t.branches.parent.rows()[0] = 0; });
  refused("site_contexts.parent[1] is 1, following", [](Trace& t) { t.site_contexts.parent.rows()[1] = 1; });
  refused("module_calls.first_op[1] is 9, end_op is 3", [](Trace& t) {
    t.module_calls.first_op.rows()[1] = 9;
    t.module_calls.end_op.rows()[1] = 3;
  });
  refused("layers.num_passes[0] is 2147483647", [](Trace& t) { t.layers.num_passes.rows()[0] = 2147483647; });
  refused("layers.num_passes[0] is -1", [](Trace& t) { t.layers.num_passes.rows()[0] = -1; });
  refused("module_calls.parent_call[1] is -1, only row 0 has no parent",
          [](Trace& t) { t.module_calls.parent_call.rows()[1] = -1; });
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  refused("payloads.bytes[0] is -1, counts are not negative", [](Trace& t) { t.payloads.bytes.rows()[0] = -1; });
  refused("payloads.bytes[1] is 9223372036854775807, the sum is above", [](Trace& t) {
    t.payloads.bytes.rows()[0] = 1;
    t.payloads.bytes.rows()[1] = kMost;
  });
  refused("params.bytes[0] is -9, counts are not negative", [](Trace& t) { t.params.bytes.rows()[0] = -9; });
  refused("the parameters up to it have more than 2^63 - 1 elements", [](Trace& t) {
    for (auto& shape : t.params.shape.rows()) shape = t.shapes.intern(std::vector{kMost, std::int64_t{2}});
  });
  refused("payloads.shard[0] is 1, there are 1 tensors files", [](Trace& t) { t.payloads.shard.rows()[0] = 1; });
  refused("ops.slot has 24 rows, the table 25", [](Trace& t) {
    t.ops.slot.rows().pop_back();
    t.ops.slot.refresh();
  });
}

TEST_F(TlspecHostile, TimesAreOnePerRow) {
  auto trace = original();
  trace.op_seconds.assign({0.5f});
  write_timing(dir_ / "timing", trace);
  replace(kTimingFile, read_text(dir_ / "timing"));
  expect_damaged("ops.seconds has 1 rows, the table 25");
}

TEST_F(TlspecHostile, InvariantsAreCheckedOnRequest) {
  auto trace = original();
  trace.ops.pass_index.rows()[5] = 9;  // a Layer of one pass has no ninth
  replace_columns(trace);
  read_tlspec(path_);
  const auto error = refusal({.check_invariants = true});
  EXPECT_EQ(error.code, ErrorCode::kFileDamaged);
  EXPECT_THAT(error.message, HasSubstr("columns.safetensors: "));
}

TEST_F(TlspecHostile, BrokenArgumentsAreRefused) {
  const auto written = original();
  const auto refused = [&](const char* text, auto&& damage) {
    auto trace = written;
    damage(trace.args.rows(), trace.flow_args.rows());
    replace_columns(trace);
    expect_damaged(text);
  };
  const auto header = [](ArgTag tag) { return ArgHeader{tag, 0, ArgHeader::kNoFlow}.pack(); };
  refused("tag 200 is unknown", [&](auto& args, auto&) { args[0] = header(static_cast<ArgTag>(200)); });
  refused("it names flow row 2, flow has 2 rows", [&](auto& args, auto&) {
    args[0] = ArgHeader{ArgTag::kInt, 0, 2}.pack();
  });
  refused("it takes 9223372036854775807 words",
          [&](auto& args, auto&) { args[1] = std::numeric_limits<std::int64_t>::max(); });
  refused("its length is missing", [&](auto& args, auto&) { args[1] = -1; });
  refused("ops.args_begin[3] is 4, which is inside an argument that ends at word 7",
          [&](auto& args, auto&) { args[1] = 5; });
  refused("flow_args[1] is 25, ops has 25 rows", [&](auto&, auto& flow) { flow[1] = 25; });
  refused("flow_args[1] is -1, the string pool has", [&](auto&, auto& flow) {
    flow[0] = header(ArgTag::kString);
    flow[1] = -1;
  });
  refused("flow.args_begin[1] is 3, which is inside", [&](auto&, auto& flow) { flow[2] = header(ArgTag::kInt); });
  refused("flow.value[1] is 6, which is no list among the words up to 9", [&](auto&, auto& flow) {
    flow[6] = ArgHeader{ArgTag::kBoolList, 0, ArgHeader::kNoFlow}.pack();
  });
}

TEST_F(TlspecHostile, ListValuesPointAtTheirOwnWords) {
  for (const std::int64_t value :
       {std::int64_t{-1}, std::int64_t{3}, std::int64_t{7}, std::int64_t{9}, std::int64_t{1} << 60}) {
    auto trace = original();
    trace.flow.value.rows()[1] = value;
    replace_columns(trace);
    expect_damaged(("flow.value[1] is " + std::to_string(value)).c_str());
    fs::remove_all(path_);
    write_tlspec(test::make_sample_trace(), path_);
  }
}

TEST_F(TlspecHostile, LinksAreRefused) {
  for (const auto& name : all_files()) {
    fs::rename(path_ / name, dir_ / "elsewhere");
    fs::create_symlink(dir_ / "elsewhere", path_ / name);
    EXPECT_EQ(refusal().code, ErrorCode::kFileHostile) << name;
    fs::remove(path_ / name);
    fs::rename(dir_ / "elsewhere", path_ / name);
  }
  read_tlspec(path_);
}

TEST_F(TlspecHostile, TheDirectoryHoldsWhatTheManifestLists) {
  overwrite(path_ / "notes.txt", "x");
  expect_damaged("holds 'notes.txt', which manifest.json does not list");
  fs::remove(path_ / "notes.txt");
  overwrite(path_ / ".DS_Store", "left by a file manager");
  read_tlspec(path_);
  for (const auto& name : all_files()) {
    if (name == kManifestFile) continue;
    fs::rename(path_ / name, dir_ / "elsewhere");
    expect_damaged("is missing, manifest.json lists it");
    fs::rename(dir_ / "elsewhere", path_ / name);
  }
}

TEST_F(TlspecHostile, DigestsAreVerifiedOnRequest) {
  for (const auto& name : all_files()) {
    if (name == kManifestFile) continue;
    const auto whole = read_text(path_ / name);
    auto changed = whole;
    changed.back() = static_cast<char>(changed.back() ^ 1);
    overwrite(path_ / name, changed);
    const auto error = refusal({.verify_digests = true});
    EXPECT_EQ(error.code, ErrorCode::kFileDamaged);
    EXPECT_THAT(error.message, HasSubstr(name));
    EXPECT_THAT(error.message, HasSubstr("has the digest"));
    overwrite(path_ / name, whole);
  }
}

TEST_F(TlspecHostile, CountsOfTheManifestAreHeldAgainstTheColumns) {
  auto document = nlohmann::json::parse(read_text(path_ / kManifestFile));
  document["counts"]["ops"] = 1'000'000'000;
  overwrite(path_ / kManifestFile, document.dump());
  expect_damaged("counts.ops is 1000000000, columns.safetensors has 25 rows");
}

TEST_F(TlspecHostile, PayloadsThatDoNotFitTheirRowAreRefusedOnAccess) {
  auto trace = original();
  trace.payloads.dtype.rows()[0] = static_cast<std::uint8_t>(DType::kI32);
  trace.payloads.shape.rows()[1] = trace.payloads.shape[0];
  trace.payloads.first_op.rows()[2] = 0;
  replace_columns(trace);
  const auto damaged = read_tlspec(path_);
  const auto refused = [&](std::uint32_t row, const char* text) {
    try {
      damaged.payload_source->tensor(PayloadId{row});
      ADD_FAILURE() << "accepted " << row;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::kFileDamaged);
      EXPECT_THAT(error.message, HasSubstr("tensors-00000.safetensors: "));
      EXPECT_THAT(error.message, HasSubstr(text));
    }
  };
  refused(0, "contiguous_1_1 is stored as f32[2,3], the columns say i32[2,3]");
  refused(1, "transposed_1_2 is stored as f32[3,2], the columns say f32[2,3]");
  refused(2, "input_1 is not stored");
  EXPECT_EQ(refusal({.verify_digests = true}).code, ErrorCode::kFileDamaged);
}

TEST_F(TlspecHostile, WindowsStayInsideTheirBlock) {
  auto trace = original();
  trace.payloads.offset.rows()[3] = 1;
  replace_columns(trace);
  const auto damaged = read_tlspec(path_);
  EXPECT_THROW(damaged.payload_source->tensor(PayloadId{3}), Error);
  trace.payloads.offset.rows()[3] = std::numeric_limits<std::int64_t>::max();
  replace_columns(trace);
  EXPECT_THROW(read_tlspec(path_).payload_source->tensor(PayloadId{3}), Error);
}

}  // namespace
}  // namespace tl

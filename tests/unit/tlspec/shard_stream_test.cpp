#include "tlspec/shard_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>

#include "core/error.h"
#include "sample_trace.h"
#include "support/temp_directory.h"
#include "tensor/safetensors.h"
#include "tlspec/reader.h"
#include "tlspec/writer.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

/// A source whose payloads went to a stream: facts number them from 1, bytes are gone where `gone` says so.
class Streamed : public PayloadSource {
 public:
  Streamed(std::shared_ptr<const PayloadSource> inner, std::size_t gone) : inner_(std::move(inner)), gone_(gone) {}
  std::size_t size() const override { return inner_->size(); }
  PayloadFacts facts(PayloadId id) const override {
    auto facts = inner_->facts(id);
    facts.storage = id.index() + 1;
    return facts;
  }
  TensorRefPtr tensor(PayloadId id) const override { return id.index() < gone_ ? nullptr : inner_->tensor(id); }

 private:
  std::shared_ptr<const PayloadSource> inner_;
  std::size_t gone_;
};

std::vector<std::string> files_of(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

void expect_same_recordings(const fs::path& got, const fs::path& expected) {
  ASSERT_EQ(files_of(got), files_of(expected));
  for (const auto& name : files_of(got)) EXPECT_EQ(read_text(got / name), read_text(expected / name)) << name;
}

/// Hands the first `count` payloads to a stream, then writes the rest with the columns.
void write_streamed(const Trace& trace, const fs::path& target, std::size_t count, std::size_t shard_bytes) {
  ShardStream stream(target, false, shard_bytes);
  auto streamed = trace;
  streamed.payload_source = std::make_shared<Streamed>(trace.payload_source, count);
  for (std::uint32_t id = 0; id < count; ++id) {
    const auto tensor = trace.payload_source->tensor(PayloadId{id});
    if (tensor) stream.write(id, streamed.payload_source->facts(PayloadId{id}), *tensor);
  }
  write_tlspec(streamed, target, {.shard_bytes = shard_bytes, .stream = &stream});
}

TEST(ShardStream, WritesWhatTheWriterWrites) {
  const TempDirectory directory;
  const auto trace = test::make_sample_trace();
  const auto count = trace.payloads.first_op.size();
  for (const std::size_t shard_bytes : {std::size_t{1} << 30, std::size_t{40}}) {
    write_tlspec(trace, directory / "plain", {.force = true, .shard_bytes = shard_bytes});
    for (const auto streamed : {std::size_t{0}, count / 2, count}) {
      write_streamed(trace, directory / "streamed", streamed, shard_bytes);
      expect_same_recordings(directory / "streamed", directory / "plain");
      test::expect_equal_payloads(read_tlspec(directory / "streamed"), trace);
      fs::remove_all(directory / "streamed");
    }
  }
}

/// Payloads of so many bytes, one an Op of the sample.
Trace large_trace(std::size_t payloads, std::size_t bytes) {
  class Zeros : public PayloadSource {
   public:
    class Ref : public TensorRef {
     public:
      explicit Ref(HostTensor tensor) : tensor_(std::move(tensor)) {}
      TensorKind kind() const override { return TensorKind::kStrided; }
      std::vector<TensorPart> to_host() const override { return {{"", tensor_}}; }

     private:
      HostTensor tensor_;
    };
    Zeros(std::size_t size, std::size_t bytes)
        : size_(size),
          tensor_(make_host_tensor(DType::kU8, {static_cast<std::int64_t>(bytes)}, std::vector<std::byte>(bytes))) {}
    std::size_t size() const override { return size_; }
    PayloadFacts facts(PayloadId id) const override {
      return {TensorKind::kStrided, tensor_.dtype, id.index() + 1, 0, tensor_.sizes, tensor_.strides};
    }
    TensorRefPtr tensor(PayloadId) const override { return std::make_shared<Ref>(tensor_); }

   private:
    std::size_t size_;
    HostTensor tensor_;
  };
  auto trace = test::make_sample_trace();
  auto& rows = trace.payloads;
  for (std::size_t row = 0; row < rows.first_op.size(); ++row) {
    const auto op = static_cast<std::size_t>(rows.first_op[row]);
    if (row >= payloads) trace.ops.payload.mut(op) = -1;
  }
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    if (trace.ops.payload[op] >= static_cast<std::int32_t>(payloads)) trace.ops.payload.mut(op) = -1;
  }
  const std::array sizes = {static_cast<std::int64_t>(bytes)};
  const std::array strides = {std::int64_t{1}};
  const auto shape = trace.shapes.intern(sizes);
  const auto stride = trace.shapes.intern(strides);
  rows.first_op.rows().resize(payloads);
  rows.first_op.refresh();
  rows.encoding.assign(std::vector<std::uint8_t>(payloads, 0));
  rows.dtype.assign(std::vector<std::uint8_t>(payloads, static_cast<std::uint8_t>(DType::kU8)));
  rows.shape.assign(std::vector<std::int32_t>(payloads, shape));
  rows.strides.assign(std::vector<std::int32_t>(payloads, stride));
  rows.offset.assign(std::vector<std::int64_t>(payloads, 0));
  rows.bytes.assign(std::vector<std::int64_t>(payloads, static_cast<std::int64_t>(bytes)));
  rows.shard.assign(std::vector<std::int32_t>(payloads, -1));
  trace.payload_source = std::make_shared<Zeros>(payloads, bytes);
  return trace;
}

// A file that reaches 64 MiB is begun before its names are known: the room for its header must not depend on them.
TEST(ShardStream, LargeFilesAreTheSameToo) {
  const TempDirectory directory;
  const auto trace = large_trace(5, std::size_t{40} << 20);
  constexpr std::size_t kShardBytes = std::size_t{130} << 20;
  write_tlspec(trace, directory / "plain", {.shard_bytes = kShardBytes});
  write_streamed(trace, directory / "streamed", 5, kShardBytes);
  ASSERT_THAT(files_of(directory / "plain"), testing::Contains("tensors-00001.safetensors"));
  expect_same_recordings(directory / "streamed", directory / "plain");
  const auto file = SafetensorsFile::open(directory / "streamed/tensors-00000.safetensors");
  EXPECT_EQ(file.entries().size(), 3U);
}

TEST(ShardStream, WhatBelongsToNoOpIsNamedSo) {
  const TempDirectory directory;
  auto trace = large_trace(2, 16);
  {
    ShardStream stream(directory / "run", false);
    const auto facts = trace.payload_source->facts(PayloadId{0});
    const auto tensor = trace.payload_source->tensor(PayloadId{0});
    stream.write(7, facts, *tensor);
    stream.write(0, facts, *tensor);
    write_tlspec(trace, directory / "run", {.stream = &stream});
  }
  const auto file = SafetensorsFile::open(directory / "run/tensors-00000.safetensors");
  std::vector<std::string> names;
  for (const auto& entry : file.entries()) names.push_back(entry.name);
  EXPECT_THAT(names, testing::ElementsAre("dropped.0", testing::_, testing::_));
  EXPECT_EQ(read_tlspec(directory / "run").payloads.first_op.size(), 2U);
}

TEST(ShardStream, LeavesNothingWithoutACommit) {
  const TempDirectory directory;
  {
    ShardStream stream(directory / "run", false);
    EXPECT_EQ(count_entries(directory.path()), 1U);  // the temporary sibling
  }
  EXPECT_EQ(count_entries(directory.path()), 0U);
}

}  // namespace
}  // namespace tl

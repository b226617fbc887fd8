#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "trace/capture.h"

namespace tl {

/// Some payloads of another source, in an order of their own.
class ChosenPayloads : public PayloadSource {
 public:
  /// `rows`: number in `inner`, by number here.
  ChosenPayloads(std::shared_ptr<const PayloadSource> inner, std::vector<std::uint32_t> rows)
      : inner_(std::move(inner)), rows_(std::move(rows)) {}
  std::size_t size() const override { return rows_.size(); }
  PayloadFacts facts(PayloadId id) const override { return inner_->facts(PayloadId{rows_[id.index()]}); }
  TensorRefPtr tensor(PayloadId id) const override { return inner_->tensor(PayloadId{rows_[id.index()]}); }

 private:
  std::shared_ptr<const PayloadSource> inner_;
  std::vector<std::uint32_t> rows_;
};

}  // namespace tl

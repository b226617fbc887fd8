#include "postprocess/retain_payloads.h"

#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "postprocess/chosen_payloads.h"

namespace tl {

void retain_payloads(Trace& trace, const std::vector<bool>& keep) {
  TL_CHECK(keep.size() == trace.num_ops(), "one answer an Op");
  auto& payload_of = trace.ops.payload.rows();
  auto& sample_of = trace.ops.sample.rows();
  const auto before = trace.payloads.first_op.size();
  std::vector<std::int32_t> first_op(before, -1);
  for (std::size_t op = 0; op < keep.size(); ++op) {
    for (auto* payload : {&payload_of[op], &sample_of[op]}) {
      if (!keep[op]) *payload = -1;
      if (*payload < 0) continue;
      auto& first = first_op[static_cast<std::size_t>(*payload)];
      if (first < 0) first = static_cast<std::int32_t>(op);
    }
  }
  // Rows stand in the order of their first Op; dropping first Ops may change it.
  std::vector<std::int32_t> new_row(before, -1);
  std::vector<std::uint32_t> old_row;
  for (std::size_t op = 0; op < keep.size(); ++op) {
    for (auto* payload : {&payload_of[op], &sample_of[op]}) {
      if (*payload < 0) continue;
      const auto row = static_cast<std::size_t>(*payload);
      if (new_row[row] < 0) {
        new_row[row] = static_cast<std::int32_t>(old_row.size());
        old_row.push_back(static_cast<std::uint32_t>(row));
      }
      *payload = new_row[row];
    }
  }
  visit_payloads(trace.payloads, [&](std::string_view, auto& column, std::string_view, std::string_view) {
    std::remove_cvref_t<decltype(column.rows())> rows;
    for (const auto row : old_row) rows.push_back(column[row]);
    column.assign(std::move(rows));
  });
  for (std::size_t row = 0; row < old_row.size(); ++row) trace.payloads.first_op.mut(row) = first_op[old_row[row]];
  if (trace.payload_source != nullptr) {
    trace.payload_source = std::make_shared<ChosenPayloads>(std::move(trace.payload_source), std::move(old_row));
  }
}

}  // namespace tl

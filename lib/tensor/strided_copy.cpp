#include "tensor/strided_copy.h"

#include <cstring>

#include "core/error.h"

namespace tl {
namespace {

/// Sizes and strides of a tensor with size-1 axes dropped and axes merged that one stride walks through.
struct Layout {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

Layout coalesced(const HostTensor& tensor) {
  Layout layout;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    const std::int64_t size = tensor.sizes[i];
    const std::int64_t stride = tensor.strides[i];
    if (size == 1) continue;
    if (!layout.sizes.empty() && layout.strides.back() == size * stride) {
      layout.sizes.back() *= size;
      layout.strides.back() = stride;
    } else {
      layout.sizes.push_back(size);
      layout.strides.push_back(stride);
    }
  }
  return layout;
}

/// Copies a line of `count` items of kItem bytes; `stride` in items.
template <std::size_t kItem>
void copy_line(const std::byte* source, std::int64_t stride, std::int64_t count, std::byte* out) {
  if (stride == 1) {
    std::memcpy(out, source, static_cast<std::size_t>(count) * kItem);
    return;
  }
  const std::int64_t step = stride * static_cast<std::int64_t>(kItem);
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(out + i * static_cast<std::int64_t>(kItem), source + i * step, kItem);
}

/// Copies a plane whose rows are far apart in the target and close in the source (a transposition), tile by tile, so
/// that each cache line of either side is used whole.
template <std::size_t kItem>
void copy_plane(const std::byte* source, std::int64_t rows, std::int64_t row_stride, std::int64_t row_out,
                std::int64_t columns, std::int64_t column_stride, std::byte* out) {
  constexpr std::int64_t kTile = 32;
  constexpr auto kWidth = static_cast<std::int64_t>(kItem);
  for (std::int64_t row0 = 0; row0 < rows; row0 += kTile) {
    const std::int64_t row1 = std::min(rows, row0 + kTile);
    for (std::int64_t column0 = 0; column0 < columns; column0 += kTile) {
      const std::int64_t width = std::min(columns, column0 + kTile) - column0;
      for (std::int64_t row = row0; row < row1; ++row) {
        copy_line<kItem>(source + (row * row_stride + column0 * column_stride) * kWidth, column_stride, width,
                         out + (row * row_out + column0) * kWidth);
      }
    }
  }
}

/// The axis to walk beside the last one: the one with the smallest stride, if that is smaller than the last's.
std::size_t partner_axis(std::span<const std::int64_t> strides) {
  std::size_t best = strides.size() - 1;
  for (std::size_t i = 0; i + 1 < strides.size(); ++i) {
    if (strides[i] != 0 && strides[i] < strides[best]) best = i;
  }
  return best;
}

/// Copies a whole box of at least one axis to `out`, packed.
template <std::size_t kItem>
void copy_box(const std::byte* source, std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides,
              std::byte* out) {
  constexpr auto kWidth = static_cast<std::int64_t>(kItem);
  const std::size_t last = sizes.size() - 1;
  const std::size_t partner = partner_axis(strides);
  std::vector<std::int64_t> out_strides = contiguous_strides(sizes);
  std::vector<std::int64_t> index(sizes.size(), 0);
  std::int64_t from = 0;
  std::int64_t to = 0;
  while (true) {
    if (partner == last) {
      copy_line<kItem>(source + from * kWidth, strides[last], sizes[last], out + to * kWidth);
    } else {
      copy_plane<kItem>(source + from * kWidth, sizes[partner], strides[partner], out_strides[partner], sizes[last],
                        strides[last], out + to * kWidth);
    }
    std::size_t axis = last;
    while (axis-- > 0) {
      if (axis == partner) continue;
      from += strides[axis];
      to += out_strides[axis];
      if (++index[axis] < sizes[axis]) break;
      from -= strides[axis] * sizes[axis];
      to -= out_strides[axis] * sizes[axis];
      index[axis] = 0;
    }
    if (axis > last) return;
  }
}

/// Copies the elements [begin, begin + count) of the box that the axes from `axis` on span, splitting the range into a
/// started slice, whole slices and a rest. Returns the end of what it wrote.
template <std::size_t kItem>
std::byte* copy_range(const Layout& layout, std::size_t axis, const std::byte* source, std::int64_t begin,
                      std::int64_t count, std::byte* out) {
  if (count == 0) return out;
  constexpr auto kWidth = static_cast<std::int64_t>(kItem);
  if (layout.sizes.size() == axis) {
    std::memcpy(out, source, kItem);
    return out + kItem;
  }
  const std::int64_t stride = layout.strides[axis];
  if (layout.sizes.size() == axis + 1) {
    copy_line<kItem>(source + begin * stride * kWidth, stride, count, out);
    return out + count * kWidth;
  }
  std::int64_t slice = 1;
  for (std::size_t i = axis + 1; i < layout.sizes.size(); ++i) slice *= layout.sizes[i];
  std::int64_t row = begin / slice;
  if (const std::int64_t within = begin % slice; within != 0) {
    const std::int64_t part = std::min(count, slice - within);
    out = copy_range<kItem>(layout, axis + 1, source + row * stride * kWidth, within, part, out);
    count -= part;
    ++row;
  }
  if (const std::int64_t whole = count / slice; whole != 0) {
    std::vector<std::int64_t> sizes(layout.sizes.begin() + static_cast<std::ptrdiff_t>(axis), layout.sizes.end());
    sizes[0] = whole;
    copy_box<kItem>(source + row * stride * kWidth, sizes, std::span(layout.strides).subspan(axis), out);
    out += whole * slice * kWidth;
    count -= whole * slice;
    row += whole;
  }
  return copy_range<kItem>(layout, axis + 1, source + row * stride * kWidth, 0, count, out);
}

}  // namespace

void check_readable(const HostTensor& tensor) {
  TL_CHECK(fits_storage(tensor, tensor.storage.size()), "a tensor's elements lie inside its storage");
}

void copy_elements(const HostTensor& tensor, std::int64_t begin, std::int64_t count, std::span<std::byte> out) {
  check_readable(tensor);
  const std::size_t item = item_bytes(tensor.dtype);
  TL_CHECK(begin >= 0 && count >= 0 && count <= tensor.numel() - begin, "the range lies inside the tensor");
  TL_CHECK(static_cast<std::size_t>(count) <= out.size() / item, "the target holds the range");
  if (count == 0) return;
  const Layout layout = coalesced(tensor);
  const std::byte* source = tensor.storage.data() + static_cast<std::size_t>(tensor.offset) * item;
  switch (item) {
    case 1:
      copy_range<1>(layout, 0, source, begin, count, out.data());
      return;
    case 2:
      copy_range<2>(layout, 0, source, begin, count, out.data());
      return;
    case 4:
      copy_range<4>(layout, 0, source, begin, count, out.data());
      return;
    case 8:
      copy_range<8>(layout, 0, source, begin, count, out.data());
      return;
    default:
      TL_CHECK(item == 16, "elements have 1, 2, 4, 8 or 16 bytes");
      copy_range<16>(layout, 0, source, begin, count, out.data());
  }
}

}  // namespace tl

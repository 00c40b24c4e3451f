// Weights laid out for products: the tiles of a product are so many rows by so many vectors of columns.
#pragma once

#include <algorithm>
#include <vector>

#include "simd.h"

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int TILE_ROWS = 8;
#else
constexpr int TILE_ROWS = 4;
#endif
constexpr int TILE_VECTORS = 3;

// W (columns, depth) as panels of up to TILE_VECTORS vectors of columns: panel, depth, column.
class Packed {
  public:
    // `width` padded columns; entry(column, k) is the number there.
    template <class Entry> Packed(std::size_t width, std::size_t depth, Entry entry)
        : width(width), depth(depth), values(width * depth) {
        real* to = values.data();
        for (std::size_t first = 0; first < width; first += TILE_VECTORS * LANES) {
            std::size_t columns = std::min(width - first, std::size_t(TILE_VECTORS * LANES));
            for (std::size_t k = 0; k < depth; ++k)
                for (std::size_t c = 0; c < columns; ++c) *to++ = entry(first + c, k);
        }
    }

    std::size_t width, depth;

    const real* panel(std::size_t first) const { return values.data() + first * depth; }

  private:
    Numbers values;
};

// Weights laid out for products: the tiles of a product are so many rows by so many vectors of columns. What lays them out is in
// layout.h, which drivers alone need.
#pragma once

#include "simd.h"

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int TILE_ROWS = 8;
#else
constexpr int TILE_ROWS = 4;
#endif
constexpr int TILE_VECTORS = 3;

// Units of a source, from `first` on, and where their weights begin.
struct Stretch { std::size_t source, first, units, at; };

// `passes`: stretches whose weights stay in the nearest cache while row after row reads them.
struct Panel {
    std::size_t column;
    int vectors;
    Array<Array<Stretch>> passes;
};

struct Product {
    std::size_t width = 0;  // of all maps, each padded
    Numbers start, values;
    Array<Panel> panels;
};

// Memory for what is computed for each of several samples.
#pragma once

#include "simd.h"

// Rows of scratch, all 0. Each begins an odd number of cache lines after the last: at a power of two they would all meet in
// the same few places of the cache.
struct Rows {
    static std::size_t apart(std::size_t width) {
        constexpr std::size_t LINE = 64 / sizeof(real);
        return ((width + LINE - 1) / LINE | 1) * LINE;
    }

    std::size_t stride;
    Numbers values;
    Array<real*> at;

    Rows(std::size_t rows, std::size_t width) : stride(apart(width)), values(rows * stride), at(rows) {
        for (std::size_t m = 0; m < rows; ++m) at[m] = values.data() + m * stride;
    }
    real* operator[](std::size_t m) { return at[m]; }
};

// What is kept of a cell of a Brownian path and one of its parts: two rows for the cell, four for each halving, one for an
// integral; and behind them what they are of.
constexpr std::size_t ADDRESS = 6;

inline std::size_t memo_of(std::size_t width, std::size_t parts) {
    std::size_t rows = 3;
    for (; parts > 1; parts /= 2) rows += 4;
    return rows * padded(width) + ADDRESS;
}

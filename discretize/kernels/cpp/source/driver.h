// What drivers make of the program that they are given: weights laid out for products, and its passes.
#pragma once

#include <memory>

#include "rows.h"

inline Shared::Shared(const CtrnnProgram& p, std::size_t first)
    : program(p), size(p.size, p.size + p.sizes), total(first) {
    for (std::size_t k = 0; k < p.kept_values; ++k) kept.push_back(total), total += padded(p.kept_widths[k]);
    total += LANES;  // read beyond the last of them
    for (std::size_t k = 0; k < p.vectors; ++k) {
        vectors.emplace_back(roomy(p.vector_widths[k]));
        std::memcpy(vectors.back().data(), p.vector[k], p.vector_widths[k] * sizeof(real));
    }
    for (std::size_t k = 0; k < p.matrices; ++k) {
        const std::size_t depth = p.depths[k], width = p.widths[k];
        const real* from = p.matrix[k];
        matrices.emplace_back(padded(width), depth, [=](std::size_t column, std::size_t row) {
            return column < width ? from[row * width + column] : real(0);
        });
    }
}

inline std::unique_ptr<Forward> forward_of(const Shared& shared, std::size_t rows) {
    return std::unique_ptr<Forward>(shared.program.forward(shared, rows));
}

// `together`: so many times the rows are summed at a time.
inline std::unique_ptr<Backward> backward_of(const Shared& shared, std::size_t rows, std::size_t together) {
    return std::unique_ptr<Backward>(shared.program.backward(shared, rows, together));
}

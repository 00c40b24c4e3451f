// Prepares a program for the drivers: lays its weights out for products, and makes its passes. For samples
// side by side in lanes the numbers of a product are read as they are (attempt.h), and nothing is laid out.
#pragma once

#if !LANEWISE
#include "layout.h"
#endif
#include "owned.h"
#include "rows.h"

inline void skip(const std::size_t*& numbers) {
    for (std::size_t maps = *numbers++; maps-- > 0; numbers += 3 + 2 * numbers[2]) {}
}

#if !LANEWISE
inline Product product_of(const CtrnnProgram& p, const std::size_t*& numbers) {
    Array<Affine> maps(*numbers++);
    Array<std::size_t> depths;
    for (Affine& map : maps) {
        map.width = *numbers++;
        const std::size_t start = *numbers++;
        map.start = start ? p.vector[start - 1] : nullptr;
        for (std::size_t parts = *numbers++; parts-- > 0;) {
            const std::size_t source = *numbers++, matrix = *numbers++;
            if (depths.size() <= source) depths.resize(source + 1);
            depths[source] = p.depths[matrix];
            map.parts.push_back({source, p.matrix[matrix]});
        }
    }
    return Layout(maps, depths);
}
#endif

inline Shared::Shared(const CtrnnProgram& p, std::size_t first, bool forth, bool back, std::size_t slots)
    : program(p), slots(slots), across(larger(slots, LANES)), size(p.size, p.size + p.sizes), total(first) {
    for (std::size_t& each : size) each *= slots;
    for (std::size_t k = 0; k < p.kept_values; ++k) kept.push_back(total), total += padded(p.kept_widths[k]);
    total += LANES;  // read beyond the last of them
    for (std::size_t k = 0; k < p.vectors; ++k) {
        vectors.emplace_back(roomy(p.vector_widths[k] * slots));
        for (std::size_t i = 0; i < p.vector_widths[k]; ++i) fill(vectors.back().data() + i * slots, slots, p.vector[k][i]);
    }
    const std::size_t* numbers = p.product;
    for (std::size_t k = 0; k < p.products; ++k) {
        product_numbers.push_back(numbers);
#if !LANEWISE
        if (k < p.forth ? forth : back) {
            products.push_back(product_of(p, numbers));
            continue;
        }
        products.emplace_back();
#endif
        skip(numbers);
    }
}

inline Owned<Forward> forward_of(const Shared& shared, std::size_t rows) {
    return shared.program.forward(shared, rows);
}

// `together`: so many times the rows are summed at a time.
inline Owned<Backward> backward_of(const Shared& shared, std::size_t rows, std::size_t together) {
    return shared.program.backward(shared, rows, together);
}

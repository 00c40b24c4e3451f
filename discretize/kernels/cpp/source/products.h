// Products of a few rows with a weight matrix, and of many rows with one another: the weights are laid out once a call, and
// a tile of the result stays in registers over the whole sum. Every entry is summed in the same order whatever rows are
// computed beside it, so a sample's answer has the same bits in any company.
#pragma once

#include "packed.h"

// y_m = from_m + the stretches of one pass; from[m] may be y[m].
template <int rows, int vectors>
inline void tile(const Product& product, const Array<Stretch>& pass, const real* const* const* sources, std::size_t first,
                 const real* const* from, real* const* y, std::size_t column) {
    vec total[rows][vectors];
    for (int m = 0; m < rows; ++m)
        for (int v = 0; v < vectors; ++v) total[m][v] = load(from[m] + column + v * LANES);
    for (const Stretch& stretch : pass) {
        const real* w = product.values.data() + stretch.at;
        const real* a[rows];
        for (int m = 0; m < rows; ++m) a[m] = sources[stretch.source][first + m] + stretch.first;
        for (std::size_t k = 0; k < stretch.units; ++k) {
            vec weights[vectors];
            for (int v = 0; v < vectors; ++v) weights[v] = load(w + v * LANES);
            w += vectors * LANES;
            for (int m = 0; m < rows; ++m) {
                vec of_row = splat(a[m][k]);
                for (int v = 0; v < vectors; ++v) total[m][v] += of_row * weights[v];
            }
        }
    }
    for (int m = 0; m < rows; ++m)
        for (int v = 0; v < vectors; ++v) store(y[m] + column + v * LANES, total[m][v]);
}

template <int vectors>
inline void rows_of_panel(std::size_t rows, const Product& product, const Panel& panel, const real* const* const* sources,
                          const real* const* from, real* const* y) {
    const std::size_t column = panel.column;
    for (const auto& pass : panel.passes) {
        std::size_t m = 0;
        for (; m + TILE_ROWS <= rows; m += TILE_ROWS) tile<TILE_ROWS, vectors>(product, pass, sources, m, from + m, y + m, column);
        for (; TILE_ROWS > 4 && m + 4 <= rows; m += 4) tile<4, vectors>(product, pass, sources, m, from + m, y + m, column);
        for (; m + 2 <= rows; m += 2) tile<2, vectors>(product, pass, sources, m, from + m, y + m, column);
        for (; m < rows; ++m) tile<1, vectors>(product, pass, sources, m, from + m, y + m, column);
        from = y;
    }
}

// y_m = from_m + the maps of a_m = sources[..][m] for every row m; y rows are padded as the maps are.
inline void multiply(std::size_t rows, const Product& product, const real* const* const* sources, const real* const* from,
                     real* const* y) {
    for (const Panel& panel : product.panels) {
        switch (panel.vectors) {
            case 3: rows_of_panel<3>(rows, product, panel, sources, from, y); break;
            case 2: rows_of_panel<2>(rows, product, panel, sources, from, y); break;
            default: rows_of_panel<1>(rows, product, panel, sources, from, y);
        }
    }
}

// Sums of outer products of many rows. Both sides are laid out for the tiles first, which read them in order.
class Outer {
  public:
    // C += sum over k of a_k b_k^T; a (depth, height), b (depth, width), C (height, width); heights and widths are padded.
    void add(std::size_t depth, std::size_t height, std::size_t width, const real* a, std::size_t a_step, const real* b,
             std::size_t b_step, real* c, std::size_t c_step) {
        left.resize(depth * ROWS);
        right.resize(depth * width);
        real* to = right.data();
        for (std::size_t first = 0; first < width; first += TILE_VECTORS * LANES) {
            const std::size_t columns = smaller(width - first, std::size_t(TILE_VECTORS * LANES));
            for (std::size_t k = 0; k < depth; ++k, to += columns)
                std::memcpy(to, b + k * b_step + first, columns * sizeof(real));
        }
        for (std::size_t row = 0; row < height; row += ROWS) {
            const std::size_t rows = smaller(height - row, ROWS);
            if (rows == ROWS)
                for (std::size_t k = 0; k < depth; ++k) std::memcpy(&left[k * ROWS], a + k * a_step + row, ROWS * sizeof(real));
            else
                for (std::size_t k = 0; k < depth; ++k)
                    for (std::size_t m = 0; m < ROWS; ++m) left[k * ROWS + m] = m < rows ? a[k * a_step + row + m] : real(0);
            for (std::size_t first = 0; first < width; first += TILE_VECTORS * LANES) {
                const real* panel = right.data() + first * depth;
                real* at = c + row * c_step + first;
                switch (smaller(width - first, std::size_t(TILE_VECTORS * LANES)) / LANES) {
                    case 3: tile<3>(depth, rows, panel, at, c_step); break;
                    case 2: tile<2>(depth, rows, panel, at, c_step); break;
                    default: tile<1>(depth, rows, panel, at, c_step);
                }
            }
        }
    }

  private:
    static constexpr std::size_t ROWS = TILE_ROWS;
    Numbers left, right;

    template <int vectors> void tile(std::size_t depth, std::size_t rows, const real* b, real* c, std::size_t c_step) const {
        vec total[ROWS][vectors] = {};
        const real* a = left.data();
        for (std::size_t k = 0; k < depth; ++k, a += ROWS) {
            vec of_b[vectors];
            for (int v = 0; v < vectors; ++v) of_b[v] = load(b + v * LANES);
            b += vectors * LANES;
            for (std::size_t m = 0; m < ROWS; ++m) {
                vec of_a = splat(a[m]);
                for (int v = 0; v < vectors; ++v) total[m][v] += of_a * of_b[v];
            }
        }
        // Not up to `rows`: an index that is not known beforehand would keep the sums out of registers.
        for (std::size_t m = 0; m < ROWS; ++m)
            if (m < rows)
                for (int v = 0; v < vectors; ++v)
                    store(c + m * c_step + v * LANES, load(c + m * c_step + v * LANES) + total[m][v]);
    }
};

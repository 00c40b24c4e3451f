// Factors of a dense matrix, with rows exchanged so that the largest number of a column is divided by.
#pragma once

#include "simd.h"

// P M = L U, of a square matrix that is written row by row. A singular one gives what is not finite.
class Factors {
  public:
    explicit Factors(std::size_t n) : n(n), stride(padded(n) + LANES), values(n * stride), inverse(n), exchanged(n) {}

    real* operator[](std::size_t row) { return values.data() + row * stride; }

    // PANEL columns at a time: what is right of them is read and written once for all of them.
    void factor() {
        for (std::size_t first = 0; first < n; first += PANEL) {
            const std::size_t end = first + PANEL < n ? first + PANEL : n;
            for (std::size_t column = first; column < end; ++column) eliminate(column, end);
            for (std::size_t row = first + 1; row < end; ++row) subtract(row, first, row, end);
            for (std::size_t row = end; row < n; ++row) subtract(row, first, end, end);
        }
    }

    // M^T u = v, in the place of v, which has room for a vector beyond its n numbers.
    void solve_turned(real* v) {
        for (std::size_t k = 0; k < n; ++k) {
            const real* row = (*this)[k];
            const real found = v[k] *= inverse[k];
            for (std::size_t i = k + 1; i < n; i += LANES) store(v + i, load(v + i) - found * load(row + i));
        }
        for (std::size_t k = n; k-- > 0;) {
            const real* row = (*this)[k];
            const real found = v[k];
            for (std::size_t i = 0; i < k; i += LANES) store(v + i, load(v + i, k - i) - found * load(row + i, k - i), k - i);
        }
        for (std::size_t k = n; k-- > 0;) swap_values(v[k], v[exchanged[k]]);
    }

    // M u = v, likewise.
    void solve(real* v) {
        for (std::size_t k = 0; k < n; ++k) swap_values(v[k], v[exchanged[k]]);
        for (std::size_t k = 0; k < n; ++k) v[k] -= product((*this)[k], v, k);
        for (std::size_t k = n; k-- > 0;) v[k] = (v[k] - product((*this)[k] + k + 1, v + k + 1, n - k - 1)) * inverse[k];
    }

    bool has_negative_determinant() const {
        bool negative = false;
        for (std::size_t k = 0; k < n; ++k) negative ^= (inverse[k] < 0) ^ (exchanged[k] != k);
        return negative;
    }

  private:
    static constexpr std::size_t PANEL = 4;
    const std::size_t n, stride;
    Numbers values, inverse;
    Array<std::size_t> exchanged;

    void eliminate(std::size_t column, std::size_t end) {
        std::size_t largest = column;
        for (std::size_t row = column + 1; row < n; ++row)
            if (__builtin_fabs((*this)[row][column]) > __builtin_fabs((*this)[largest][column])) largest = row;
        exchanged[column] = largest;
        real* pivot = (*this)[column];
        if (largest != column)
            for (std::size_t i = 0; i < n; ++i) swap_values(pivot[i], (*this)[largest][i]);
        inverse[column] = real(1) / pivot[column];
        for (std::size_t row = column + 1; row < n; ++row) {
            real* at = (*this)[row];
            at[column] *= inverse[column];
            for (std::size_t i = column + 1; i < end; ++i) at[i] -= at[column] * pivot[i];
        }
    }

    // From a row, its multiples of the rows from `first` on to `last`, in the columns from `from` on.
    void subtract(std::size_t row, std::size_t first, std::size_t last, std::size_t from) {
        real* to = (*this)[row];
        for (std::size_t i = from; i < n; i += LANES) {
            vec total = load(to + i);
            for (std::size_t k = first; k < last; ++k) total -= to[k] * load((*this)[k] + i);
            store(to + i, total);
        }
    }

    static real product(const real* a, const real* b, std::size_t count) {
        vec total = {};
        for (std::size_t i = 0; i < count; i += LANES) total += load(a + i, count - i) * load(b + i, count - i);
        return sum(total);
    }
};

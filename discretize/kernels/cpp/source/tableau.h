// An explicit pair, as lanes read it, and weighted sums of slopes.
#pragma once

#include "simd.h"

// sum over j of weight_j k_j, for the weights that are not 0
struct Combination {
    std::vector<std::size_t> of;
    std::vector<real> weights;

    Combination(const double* given, std::size_t count) {
        for (std::size_t j = 0; j < count; ++j)
            if (given[j] != 0) of.push_back(j), weights.push_back(real(given[j]));
    }

    template <class Slopes> vec at(std::size_t i, Slopes k) const {
        vec total = {};
        for (std::size_t j = 0; j < of.size(); ++j) total += weights[j] * load(k(of[j]) + i);
        return total;
    }
};

struct Tableau {
    std::size_t stages;              // after the first slope
    std::vector<double> nodes;       // of those
    std::vector<Combination> rows;   // what leads to each
    bool last_is_next;               // the last row leads to the end of the step
    Combination end, error;
    std::vector<Combination> columns;  // for each slope, what it leads to: later stages, and last the end of the step
    std::size_t used;                  // slopes that the end depends on
    double order;
    static constexpr bool reads_start = true;

    // a (stages, stages), b (stages + 1,) or null where the last row is b, e (stages + 1,)
    Tableau(std::size_t stages, const double* c, const double* a, const double* b, const double* e, double order)
        : stages(stages),
          nodes(c, c + stages),
          last_is_next(!b),
          end(b ? b : a + (stages - 1) * stages, b ? stages + 1 : stages),
          error(e, stages + 1),
          used(b ? stages + 1 : stages),
          order(order) {
        for (std::size_t i = 0; i < stages; ++i) rows.emplace_back(a + i * stages, i + 1);
        for (std::size_t j = 0; j < used; ++j) {
            std::vector<double> column(used + 1);
            for (std::size_t i = j + 1; i < used; ++i) column[i] = a[(i - 1) * stages + j];
            column[used] = b ? b[j] : a[(stages - 1) * stages + j];
            columns.emplace_back(column.data(), used + 1);
        }
    }
};

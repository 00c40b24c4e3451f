// A Rosenbrock pair, as in discretize/solvers/rodas.py.
#pragma once

#include "derivatives.h"
#include "tableau.h"

// (1 - gamma dt J) u_i = gamma (dt (f(t + c_i dt, h + sum_j a_ij u_j) + d_i dt df/dt) + sum_j C_ij u_j); the state after it is where
// the last stage is taken and the last u, which is the error.
struct Rosenbrock {
    std::size_t stages, end_slope = 0;
    double gamma, order;
    std::vector<double> nodes;
    std::vector<real> from_time;
    std::vector<Combination> rows, couplings;
    std::vector<Combination> columns;  // for each u, what it leads to: where later stages are taken, and their right sides
    std::size_t used;
    bool last_is_next = false;
    static constexpr bool reads_start = true;
    static constexpr std::size_t factors = 1;

    // c, d (stages,); a, couplings (stages, stages)
    Rosenbrock(std::size_t stages, const double* c, const double* a, const double* coupled, const double* d, double gamma, double order)
        : stages(stages), gamma(gamma), order(order), nodes(c, c + stages), from_time(d, d + stages), used(stages) {
        for (std::size_t i = 0; i < stages; ++i) {
            rows.emplace_back(a + i * stages, stages);
            couplings.emplace_back(coupled + i * stages, stages);
        }
        for (std::size_t j = 0; j < stages; ++j) {
            std::vector<double> column;
            for (const double* from : {a, coupled})
                for (std::size_t i = 0; i < stages; ++i) column.push_back(from[i * stages + j]);
            columns.emplace_back(column.data(), column.size());
        }
    }

    // The right side of a stage from its slope and the earlier u; `drift`, df/dt, may be null.
    template <class Earlier>
    void right(std::size_t stage, real dt, std::size_t width, const real* slope, const real* drift, Earlier u, real* to) const {
        const real turned = real(gamma), of_time = drift ? dt * from_time[stage] : real(0);
        for (std::size_t i = 0; i < width; i += LANES) {
            vec value = load(slope + i);
            if (of_time != 0) value += of_time * load(drift + i);
            store(to + i, turned * (dt * value + couplings[stage].at(i, u)));
        }
    }
};

// A Rosenbrock pair, as in discretize/solvers/rodas.py, and the derivatives of a field that it needs.
#pragma once

#include "lu.h"
#include "tableau.h"
#include "written_model.h"

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

// Of a few rows: Jacobians, factors of 1 - gamma dt J, and derivatives by the time.
class Derivatives {
  public:
    Derivatives(const Model& model, std::size_t rows)
        : model(model), columns(MOST_ROWS, 2 * model.width + 2 * LANES), dt(1),
          by_state(model.by_state->program.columns(*model.by_state, MOST_ROWS)), drifts(rows, model.state), both(roomy(2 * model.columns)) {
        for (std::size_t row = 0; row < rows; ++row) jacobians.emplace_back(model.width, model.state), factors.emplace_back(model.width);
        if (model.by_input) {
            by_input.reset(forward_of(*model.by_input, 1).release());
            kept_by_input.resize(model.by_input->total);
        }
    }

    // J at x and h, column by column: a derivative along each unit.
    void differentiate(std::size_t row, const real* x, const real* h) {
        const std::size_t n = model.width;
        std::memcpy(both.data(), x, model.columns * sizeof(real));  // with room beyond, which the caller's numbers have not
        const std::vector<const real*> xs(MOST_ROWS, both.data());
        for (std::size_t first = 0; first < n; first += MOST_ROWS) {
            const std::size_t count = smaller(MOST_ROWS, n - first);
            for (std::size_t m = 0; m < count; ++m) {
                std::memcpy(columns[m], h, n * sizeof(real));
                columns[m][n + first + m] = 1;
            }
            by_state->run(count, first, xs.data(), columns.at.data(), jacobians[row].at.data() + first);
            for (std::size_t m = 0; m < count; ++m) columns[m][n + first + m] = 0;
        }
    }

    // Where to put how fast the input changes, before the derivative by the time is asked for.
    real* rise() { return both.data() + model.columns; }

    void differentiate_in_time(std::size_t row, const real* x, const real* h) {
        std::memcpy(both.data(), x, model.columns * sizeof(real));
        const real* xs = both.data();
        real *to = drifts[row], *keep = kept_by_input.data();
        by_input->run(1, &xs, &h, dt.data(), &keep, &to);
    }

    // On a clock: that by the time of speed(t) f, from the one of f and from f.
    void clock(std::size_t row, real speed, real acceleration, const real* f) {
        real* to = drifts[row];
        for (std::size_t i = 0; i < model.state; i += LANES) {
            vec value = acceleration * load(f + i);
            if (by_input) value += speed * load(to + i);
            store(to + i, value);
        }
    }

    const real* drift(std::size_t row) { return drifts[row]; }

    // 1 - step J, turned, for columns of J are rows here.
    void factor(std::size_t row, real step) {
        for (std::size_t k = 0; k < model.width; ++k) {
            real* to = factors[row][k];
            for (std::size_t i = 0; i < model.width; i += LANES) store(to + i, -step * load(jacobians[row][k] + i));
            to[k] += 1;
        }
        factors[row].factor();
    }

    void solve(std::size_t row, real* v) { factors[row].solve_turned(v); }
    void solve_turned(std::size_t row, real* v) { factors[row].solve(v); }

  private:
    const Model& model;
    Rows columns;
    std::vector<real> dt;  // nobody's
    std::unique_ptr<Columns> by_state;
    std::unique_ptr<Forward> by_input;
    std::vector<Rows> jacobians;
    std::vector<Factors> factors;
    Rows drifts;
    Numbers both, kept_by_input;
};

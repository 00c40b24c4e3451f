// The derivatives of a field that implicit methods read, at the start of a step.
#pragma once

#include "lu.h"
#include "written_model.h"

// Of a few rows: Jacobians J, `each` times factors of some a + b J, and derivatives by the time.
class Derivatives {
  public:
    Derivatives(const Model& model, std::size_t rows, std::size_t each)
        : model(model), each(each), columns(MOST_ROWS, 2 * model.width + 2 * LANES), dt(1),
          by_state(model.by_state->program.columns(*model.by_state, MOST_ROWS)), drifts(rows, model.state), both(roomy(2 * model.columns)),
          xs(MOST_ROWS, both.data()) {
        for (std::size_t row = 0; row < rows; ++row) jacobians.emplace_back(model.width, model.state);
        for (std::size_t row = 0; row < rows * each; ++row) factors.emplace_back(model.width);
        if (model.by_input) {
            by_input = forward_of(*model.by_input, 1);
            kept_by_input.resize(model.by_input->total);
        }
    }

    // J at x and h, column by column: a derivative along each unit.
    void differentiate(std::size_t row, const real* x, const real* h) {
        const std::size_t n = model.width;
        std::memcpy(both.data(), x, model.columns * sizeof(real));  // with room beyond, which the caller's numbers have not
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

    real* drift(std::size_t row) { return drifts[row]; }

    // a + b J, turned, for columns of J are rows here.
    void factor(std::size_t row, real a, real b, std::size_t which = 0) {
        Factors& made = factors[row * each + which];
        for (std::size_t k = 0; k < model.width; ++k) {
            real* to = made[k];
            for (std::size_t i = 0; i < model.width; i += LANES) store(to + i, b * load(jacobians[row][k] + i));
            to[k] += a;
        }
        made.factor();
    }

    void solve(std::size_t row, real* v, std::size_t which = 0) { factors[row * each + which].solve_turned(v); }
    void solve_turned(std::size_t row, real* v, std::size_t which = 0) { factors[row * each + which].solve(v); }

    bool has_negative_determinant(std::size_t row, std::size_t which = 0) const { return factors[row * each + which].has_negative_determinant(); }

    // J v, or J^T v
    void multiply(std::size_t row, const real* v, real* to) {
        for (std::size_t i = 0; i < model.width; i += LANES) {
            vec total = {};
            for (std::size_t k = 0; k < model.width; ++k) total += v[k] * load(jacobians[row][k] + i);
            store(to + i, total);
        }
    }
    // The sizes of J's numbers times those of v's
    void multiply_sizes(std::size_t row, const real* v, real* to) {
        for (std::size_t i = 0; i < model.width; i += LANES) {
            vec total = {};
            for (std::size_t k = 0; k < model.width; ++k) total += real(__builtin_fabs(v[k])) * absolute(load(jacobians[row][k] + i));
            store(to + i, total);
        }
    }
    void multiply_turned(std::size_t row, const real* v, real* to) {
        for (std::size_t k = 0; k < model.width; ++k) {
            vec total = {};
            for (std::size_t i = 0; i < model.width; i += LANES)
                total += load(v + i, model.width - i) * load(jacobians[row][k] + i, model.width - i);
            to[k] = sum(total);
        }
    }

  private:
    const Model& model;
    const std::size_t each;
    Rows columns;
    Array<real> dt;  // which a field's text takes, and does not read
    Owned<Columns> by_state;
    Owned<Forward> by_input;
    Array<Rows> jacobians;
    Array<Factors> factors;
    Rows drifts;
    Numbers both, kept_by_input;
    const Array<const real*> xs;  // the same of all rows
};

// Solves the equation of an implicit step, u = a + tau F(x, u), by Newton's method, sample by sample: the iteration of
// discretize/steps/algebra/newton.py. It is a library of its own, for it is the same for all programs.

#include "derivatives.h"
#include "equation.h"

namespace {

constexpr int MOST_ITERATIONS = 25, MOST_HALVINGS = 10, HELD_STEPS = 3, MOST_RELAXATIONS = 250, MOST_BEYOND = 40;
constexpr real LONGEST_RELAXATION = 4, STATIONARY = real(1e-6), MOST_TURN = real(0.9);
constexpr real EPS = DOUBLE ? real(__DBL_EPSILON__) : real(__FLT_EPSILON__);
constexpr real TINY = DOUBLE ? real(__DBL_MIN__) : real(__FLT_MIN__);
constexpr real ROUNDING = 64 * EPS;  // residual of a unit's equation, relative to its terms

// The flow's program gives F and the field's leak beside it.
class Newton final : public Equation {
  public:
    explicit Newton(const Model& model)
        : n(model.width), at(model, 1, 1), field(model.shared, model.columns, 1, 1), rows(ROWS, 2 * n + 2 * LANES), kept(model.kept),
          small(root(splat(real(1e-3) * ROUNDING))[0]) {}

    bool solve(const real* x, const real* a, real tau, const real* guess, real* to) override {
        for (std::size_t i = 0; i < n; ++i)
            if (!__builtin_isfinite(a[i])) return false;
        field.read(0, 0, x);
        this->a = a, this->tau = tau;
        std::memcpy(rows[U], guess, n * sizeof(real));
        bool beyond = false, solved = iterate(guess, &beyond);
        if (beyond) {
            relax(guess, MOST_BEYOND);
            solved = iterate(guess);
            if (!solved) {
                std::memcpy(rows[U], guess, n * sizeof(real));
                solved = iterate(guess);
            }
        }
        if (!solved) {
            hold(guess);
            solved = iterate(guess);
        }
        if (!solved) {
            relax(guess, MOST_RELAXATIONS);
            solved = iterate(guess);
        }
        std::memcpy(to, rows[U], n * sizeof(real));
        return solved;
    }

    void pull(const real* x, const real* u, real tau, real* v) override {
        std::memcpy(rows[U], u, n * sizeof(real));
        std::memcpy(rows[V], v, n * sizeof(real));
        at.differentiate(0, x, rows[U]);
        at.factor(0, 1, -tau);
        at.solve_turned(0, rows[V]);
        std::memcpy(v, rows[V], n * sizeof(real));
    }

  private:
    enum Row { U, MOVED, SLOPE, OFF, CORRECTION, V, REACHED, SIZE, ACTS, TURN, ROWS };
    const std::size_t n;
    Derivatives at;
    Evaluator field;
    Rows rows;
    Numbers kept;
    const real small;  // what a correction leaves is about its square: one that is down to the root of a rounding is the last
    const real* a = nullptr;
    real tau = 0;

    // a + tau F(u) - u
    void residual(const real* u, real* off) {
        real *h = const_cast<real*>(u), *keep = kept.data(), *slope = rows[SLOPE];
        field.evaluate(0, 1, &h, &keep, &slope);
        for (std::size_t i = 0; i < n; ++i) off[i] = a[i] + tau * slope[i] - u[i];
    }

    void solve_for(const real* off, real* to) {
        std::memcpy(to, off, n * sizeof(real));
        at.solve(0, to);
    }

    // The solution with what drives the state and its leak held: beyond the solution, where a decay holds the state in.
    void hold(const real* guess) {
        real* u = rows[U];
        std::memcpy(u, guess, n * sizeof(real));
        for (int step = 0; step < HELD_STEPS; ++step) {
            residual(u, rows[OFF]);
            const real* leak = rows[SLOPE] + n;
            for (std::size_t i = 0; i < n; ++i) u[i] += rows[OFF][i] / (1 + tau * leak[i]);
        }
    }

    // Follows du/ds = a + tau F(u) - u from the guess until near its stationary point, by linearly implicit steps of pseudo-time.
    // A step is taken if it goes where the residual points, and another one by the same matrix would differ by at most MOST_TURN of it.
    void relax(const real* guess, int most) {
        real *u = rows[U], *moved = rows[MOVED], *off = rows[OFF], *there = rows[V], *motion = rows[CORRECTION];
        std::memcpy(u, guess, n * sizeof(real));
        residual(u, off);
        at.differentiate(0, field.at(0)[0], u);
        for (std::size_t i = 0; i < n; ++i) {
            rows[REACHED][i] = __builtin_fabs(u[i]);
            rows[SIZE][i] = larger_of(rows[REACHED][i], __builtin_fabs(off[i]));
        }
        act(rows[SIZE]);
        real step = 1 / (1 + largest(rows[ACTS]));
        for (int relaxation = 0; relaxation < most; ++relaxation) {
            at.factor(0, 1 + 1 / step, -tau);
            solve_for(off, motion);
            for (std::size_t i = 0; i < n; ++i) moved[i] = u[i] + motion[i];
            residual(moved, there);
            const bool safe = is_safe(motion, off, there);
            if (safe) {
                std::memcpy(u, moved, n * sizeof(real));
                std::memcpy(off, there, n * sizeof(real));
                at.differentiate(0, field.at(0)[0], u);
            }
            act(u);
            bool rests = true;
            for (std::size_t i = 0; i < n; ++i) {
                rows[REACHED][i] = larger_of(rows[REACHED][i], __builtin_fabs(u[i]));
                rests &= (safe && __builtin_fabs(motion[i]) <= STATIONARY * (step < 1 ? step : 1) * rows[REACHED][i]) || is_rounding(i);
            }
            if (rests) return;  // a short step moves little anywhere
            step = safe ? smaller_of(2 * step, LONGEST_RELAXATION) : step / 4;
        }
    }

    bool is_safe(const real* motion, const real* off, const real* there) {
        real *turn = rows[TURN], along = 0;
        solve_for(there, turn);
        for (std::size_t i = 0; i < n; ++i) {
            const real size = rows[SIZE][i] = larger_of(rows[REACHED][i], __builtin_fabs(motion[i]));
            turn[i] -= motion[i];
            if (size > 0) along += motion[i] / size * (off[i] / size);
        }
        return largest(turn) <= MOST_TURN * largest(motion) && along >= 0;
    }

    // |tau J| |v|
    void act(const real* v) {
        at.multiply_sizes(0, v, rows[ACTS]);
        for (std::size_t i = 0; i < n; ++i) rows[ACTS][i] *= __builtin_fabs(tau);
    }

    // Tells whether the residual of a unit is rounding of the terms of its equation; `act` has been given the state.
    bool is_rounding(std::size_t i) {
        const real terms = larger_of(real(__builtin_fabs(a[i]) + __builtin_fabs(rows[U][i])) + rows[ACTS][i], TINY);
        return __builtin_fabs(rows[OFF][i]) <= ROUNDING * terms;
    }

    // The largest of the units, in terms of their sizes; a unit without one does not count.
    real largest(const real* v) {
        real found = 0;
        for (std::size_t i = 0; i < n; ++i) {
            const real size = rows[SIZE][i], share = size > 0 ? real(__builtin_fabs(v[i])) / size : 0;
            found = share > found || share != share ? share : found;
            if (found != found) break;
        }
        return found;
    }

    // Every unit's correction is down to rounding of it or its guess, or its residual to that of its own terms. Not of what it has
    // been on the way: far from all solutions, where u has been once, all that follows is small.
    bool is_last(const real* guess) {
        act(rows[U]);
        for (std::size_t i = 0; i < n; ++i) {
            const real u = rows[U][i];
            if (!(__builtin_fabs(rows[CORRECTION][i]) <= small * larger_of(real(__builtin_fabs(guess[i])), real(__builtin_fabs(u)))) &&
                !is_rounding(i))
                return false;
        }
        return true;
    }

    static real smaller_of(real a, real b) { return a < b ? a : b; }
    static real larger_of(real a, real b) { return a > b || a != a ? a : b; }

    // `beyond`: whether it would go past solutions, and stays, for the determinant at its start is negative.
    bool iterate(const real* guess, bool* beyond = nullptr) {
        real *u = rows[U], *moved = rows[MOVED], *off = rows[OFF], *correction = rows[CORRECTION];
        real share = 1;
        residual(u, off);
        for (std::size_t i = 0; i < n; ++i) rows[REACHED][i] = __builtin_fabs(u[i]);
        for (int iteration = 0; iteration < MOST_ITERATIONS; ++iteration) {
            at.differentiate(0, field.at(0)[0], u);
            at.factor(0, 1, -tau);
            if (beyond && iteration == 0 && at.has_negative_determinant(0)) {
                *beyond = true;
                return false;
            }
            solve_for(off, correction);
            if (is_last(guess)) {
                for (std::size_t i = 0; i < n; ++i) u[i] += correction[i];
                residual(u, off);
                solve_for(off, correction);
                for (std::size_t i = 0; i < n; ++i) u[i] += correction[i];
                return true;
            }
            share = 2 * share > 1 ? 1 : 2 * share;
            // A unit's size is what it has been on the way, or moves by, or is moved by the others: never theirs.
            act(correction);
            for (std::size_t i = 0; i < n; ++i)
                rows[SIZE][i] = larger_of(larger_of(rows[REACHED][i], __builtin_fabs(correction[i])), rows[ACTS][i]);
            const real before = largest(correction);
            for (int halving = 0; halving < MOST_HALVINGS; ++halving) {
                for (std::size_t i = 0; i < n; ++i) moved[i] = u[i] + share * correction[i];
                residual(moved, off);
                // Measured by the corrections that it would take, which do not depend on the units of the residual.
                solve_for(off, rows[V]);
                if (largest(rows[V]) <= (1 - share / 4) * before) break;
                share /= 2;
            }
            std::memcpy(u, moved, n * sizeof(real));
            for (std::size_t i = 0; i < n; ++i) rows[REACHED][i] = larger_of(rows[REACHED][i], __builtin_fabs(u[i]));
            if (!(share > real(1) / (1 << MOST_HALVINGS))) return false;  // stuck: more iterations would not help it
        }
        return false;
    }
};

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED Equation* ctrnn_equation(const Model& model) { return new Newton(model); }

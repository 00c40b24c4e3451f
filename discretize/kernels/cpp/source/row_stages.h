// Computes the stages of a step of a few samples at once, each sample's numbers in its own row.
#pragma once

#include "solve.h"

namespace {

// dh/dt of a few rows at once, each of a sample of its own at a time of its own.
class Field {
  public:
    Field(const Solve& solve, std::size_t rows, std::size_t stages)
        : evaluator(solve.model, rows, stages), solve(solve), there(roomy(solve.model.columns)) {}

    void read(std::size_t stage, std::size_t row, std::size_t segment, std::size_t sample, double tau) {
        evaluator.read(stage, row, at(segment, sample, tau));
    }

    // The projected input and the past, until the next call.
    const real* at(std::size_t segment, std::size_t sample, double tau) {
        const real* x = input(segment, sample, tau);
        if (!solve.given.past) return x;
        if (x != there.data()) std::memcpy(there.data(), x, solve.columns * sizeof(real));
        solve.read_past(segment, sample, tau, there.data() + solve.columns);
        return there.data();
    }

    Evaluator evaluator;

  private:
    const Solve& solve;
    Numbers there;

    const real* input(std::size_t segment, std::size_t sample, double tau) {
        const real* projected = solve.projected(solve.piece(segment, sample), sample);
        if (!solve.given.share) return projected;
        if (solve.given.chebyshev) {
            solve.sum_up(segment, sample, solve.shares(segment, sample, tau), there.data());
            return there.data();
        }
        const real share = real(solve.share(segment, sample, tau));
        const real* next = projected + solve.given.batch * solve.columns;
        for (std::size_t i = 0; i < solve.columns; ++i) there[i] = projected[i] + share * (next[i] - projected[i]);
        return there.data();
    }
};

// Adds `by` times the weighted sum of rows, of those whose weight is not 0.
template <class Row>
void add_weighted(real* to, real by, const double* weights, std::size_t count, std::size_t width, Row row) {
    for (std::size_t j = 0; j < count; ++j) {
        if (!weights[j]) continue;
        const real weight = by * real(weights[j]);
        const real* from = row(j);
        for (std::size_t i = 0; i < width; i += LANES) store(to + i, load(to + i) + weight * load(from + i));
    }
}

// Compute how far a solution goes until half of a step, and its end, by the slopes at its start, half and end, each times its length.
inline real to_half(real start, real half, real end) { return (5 * start + 8 * half - end) / 24; }
inline real to_end(real start, real half, real end) { return (start + 4 * half + end) / 6; }

// Tells whether a difference of two states is at most this share of their rounding.
inline bool is_rounding(real off, real from, real to, real share = 1) {
    constexpr real EPSILON = DOUBLE ? 0x1p-52 : 0x1p-23;
    return __builtin_fabs(off) <= share * 4 * EPSILON * (__builtin_fabs(from) + __builtin_fabs(to));
}

class Stages {
  public:
    Stages(Solve& solve, Array<Slot>& slots)
        : solve(solve), n(solve.model), slots(slots), field(solve, SLOTS, 1), h(SLOTS, n.state), y(SLOTS, n.state),
          kept(SLOTS, n.kept), k(SLOTS * (solve.method.stages + 3), n.state), middle(solve.by_halves() ? SLOTS : 0, n.state), error(n.state),
          calls(*this, solve.method) {}

#if IMPLICIT
    // While samples are on their way: a matrix for each slot is much memory.
    void begin() {
        if (!stiff) stiff = new Derivatives(solve.model, SLOTS, solve.method.factors);
    }
    void end() { stiff = nullptr; }
#else
    void begin() {}
    void end() {}
#endif

    // A sample's first state.
    void enter(std::size_t s, const real* state) { solve.copy_state(state, h[s]); }
    // The state of a slot, padded; a unit of a slope.
    const real* state(std::size_t s) { return h[s]; }
    real slope_at(std::size_t stage, std::size_t s, std::size_t i) { return slope(stage, s)[i]; }

    void slopes_at_start(const Array<std::size_t>& on) { evaluate(on, 0, 0, h); }

    // The second slope, behind an Euler step.
    void slopes_after_euler(const Array<std::size_t>& on) {
        for (std::size_t s : on)
            for (std::size_t i = 0; i < n.state; i += LANES)
                store(y[s] + i, load(h[s] + i) + real(slots[s].dt) * load(slope(0, s) + i));
        evaluate(on, 1, 1, y);
    }

    // How large the error of a step is, 1 the largest that is allowed; nan where it is not finite.
    double error_of(std::size_t s) {
        const real *before = h[s], *after = y[s];
        estimate(s, error.data());
        // y - y is nan where a step went to infinity, which by its own measure would be no error at all.
        for (std::size_t i = 0; i < n.state; i += LANES)
            store(error.data() + i, load(error.data() + i) + (load(after + i) - load(after + i)));
        return solve.size([=](std::size_t i) { return __builtin_fabs(before[i]) < __builtin_fabs(after[i]) ? after[i] : before[i]; },
                          [this](std::size_t i) { return error[i]; });
    }

    // Makes polynomials of steps, before they are accepted.
    void interpolate(const Array<std::size_t>& on) {
        if (solve.by_halves()) return by_halves(on);
#if !IMPLICIT
        for (std::size_t s : on) by_slopes(s);
#endif
    }

    double factor(std::size_t, double q) const { return __builtin_pow(q, -1 / solve.method.order); }

    void accept(std::size_t s) {
        swap_values(h.at[s], y.at[s]);
        if (solve.method.last_is_next) swap_values(slope(0, s), slope(solve.method.end_slope, s));
    }

    // Into y.
    void attempt(const Array<std::size_t>& on) {
#if IMPLICIT
        for (std::size_t s : on) differentiate(s);
#endif
        calls.run(on);
    }

    void estimate(std::size_t s, real* to) { std::memcpy(to, calls.errors[s], n.state * sizeof(real)); }

  private:
    Solve& solve;
    const Model& n;
    Array<Slot>& slots;
    Field field;
    Rows h, y, kept, k, middle;  // middle: states after half a step
    Numbers error;
#if !IMPLICIT
    Rows inside{2, n.state}, known{5, n.state};  // of a step as a polynomial
#endif
    FixedArray<real*, SLOTS> states{}, slopes{};  // of an evaluation
    // A method's calls of the field, for the slots that take a step.
    struct Calls final : FieldCalls {
        Stages& stages;
        const CtrnnMethod& method;
        const Owned<Attempt> text;
        Rows asked, errors;
        Array<real*> at, slopes_at;  // by call, of each row
        FixedArray<const real*, SLOTS> starts{};
        FixedArray<real*, SLOTS> ends{}, errors_at{};
        FixedArray<real, SLOTS> dt{};
        const Array<std::size_t>* on = nullptr;

        Calls(Stages& stages, const WrittenMethod& method)
            : stages(stages), method(method.given), text(method.given.attempt(method.shared, SLOTS)),
              asked(SLOTS * method.given.calls, stages.n.state), errors(SLOTS, stages.n.state), at(asked.at), slopes_at(asked.at) {
            for (std::size_t call = 0; call < method.given.calls; ++call)
                states.push_back(at.data() + call * SLOTS), slopes.push_back(slopes_at.data() + call * SLOTS);
#if IMPLICIT
            drift = drifts.data();
#endif
        }

        void run(const Array<std::size_t>& slots) {
            on = &slots;
            for (std::size_t m = 0; m < slots.size(); ++m) {
                const std::size_t s = slots[m];
                starts[m] = stages.h[s], ends[m] = stages.y[s], errors_at[m] = errors[s], dt[m] = real(stages.slots[s].dt);
#if IMPLICIT
                drifts[m] = stages.stiff->drift(s), speeds[m] = stages.speed_of(stages.slots[s]);
#endif
                if (method.following) at[method.following * SLOTS + m] = stages.y[s];
                for (std::size_t call = 0; call < method.calls; ++call) slopes_at[call * SLOTS + m] = stages.slope(call, s);
            }
            text->run(slots.size(), starts.data(), dt.data(), *this, ends.data(), errors_at.data());
        }

        void evaluate(std::size_t call, std::size_t) override {
            stages.evaluate(*on, states[call], slopes[call], method.nodes[call]);
        }
        void pull(std::size_t, std::size_t) override {}
#if IMPLICIT
        FixedArray<real*, SLOTS> drifts{};
        FixedArray<real, SLOTS> speeds{};

        void factor(std::size_t which, std::size_t m, real a, real b) override {
            stages.stiff->factor((*on)[m], a, b * speeds[m], which);
        }
        void solve_for(std::size_t which, std::size_t m, real* v, bool turned) override {
            turned ? stages.stiff->solve_turned((*on)[m], v, which) : stages.stiff->solve((*on)[m], v, which);
        }
        void multiply(std::size_t m, const real* v, real* to, bool turned) override {
            turned ? stages.stiff->multiply_turned((*on)[m], v, to) : stages.stiff->multiply((*on)[m], v, to);
            if (stages.solve.given.speed_terms) scale(to, speeds[m], stages.n.state);
        }
#endif
    } calls;
#if IMPLICIT
    Rows flows{SLOTS, n.state};  // at the start of a step, before the clock's speed
    Owned<Derivatives> stiff;

    // The derivatives at the start of a step, once for all that are tried from there.
    void differentiate(std::size_t s) {
        Slot& slot = slots[s];
        if (slot.differentiated) return;
        const real* x = field.at(slot.segment, slot.sample, slot.tau);
        stiff->differentiate(s, x, h[s]);
        if (solve.input_moves()) {
            solve.rise(slot.segment, slot.sample, slot.tau, stiff->rise());
            stiff->differentiate_in_time(s, x, h[s]);
        }
        if (solve.given.speed_terms) stiff->clock(s, speed_of(slot), acceleration_of(slot), flows[s]);
        solve.samples[slot.sample].said.evaluations += std::int64_t(solve.given.jacobian_cost);
        slot.differentiated = true;
    }

    real speed_of(const Slot& slot) const { return solve.speed(slot.segment, slot.sample, slot.tau); }
    real acceleration_of(const Slot& slot) const { return solve.acceleration(slot.segment, slot.sample, slot.tau); }
#endif

    // Returns the nodes (NODES, state) of the last step that was kept.
    real* nodes_of(std::size_t s) {
        Numbers& nodes = solve.samples[slots[s].sample].nodes;
        return nodes.data() + nodes.size() - NODES * n.width;
    }

    // Makes polynomials by half a step from the same state, and the slopes there and at the end.
    void by_halves(const Array<std::size_t>& on) {
        const bool known = solve.method.last_is_next;
        const std::size_t end = solve.method.end_slope, half = solve.method.stages + 1, whole = half + 1;
        if (!solve.method.reads_start) slopes_at_start(on);
        for (std::size_t s : on) {
            swap_values(y.at[s], middle.at[s]), slots[s].dt /= 2;
            if (known) swap_values(slope(end, s), slope(whole, s));
        }
        calls.run(on);
        for (std::size_t s : on) {
            swap_values(y.at[s], middle.at[s]), slots[s].dt *= 2;
            if (known) swap_values(slope(end, s), slope(half, s)), swap_values(slope(end, s), slope(whole, s));
        }
        if (!known) evaluate(on, half, 0.5, middle), evaluate(on, whole, 1, y);
        for (std::size_t s : on) join(s, slope(0, s), slope(half, s), slope(known ? end : whole, s));
    }

    // Writes the polynomial that has the states and these slopes at the start of a step, half of it and its end.
    void join(std::size_t s, const real* at_start, const real* at_half, const real* at_end) {
        const real dt = real(slots[s].dt), *from = h[s];
        const auto moved = [=](std::size_t i, real to, real by_slopes) {
            return is_rounding(to - from[i] - by_slopes, from[i], to) ? by_slopes : to - from[i];
        };
        real* nodes = nodes_of(s);
        for (std::size_t i = 0; i < n.width; ++i, ++nodes) {
            const real begin = dt * at_start[i], half = dt * at_half[i], end = dt * at_end[i];
            const real each[] = {from[i], begin, moved(i, middle[s][i], to_half(begin, half, end)),
                                 half,    moved(i, y[s][i], to_end(begin, half, end)), end};
            for (std::size_t k = 0; k < NODES; ++k) nodes[k * n.width] = each[k];
        }
    }

#if !IMPLICIT
    // Makes a polynomial by two more slopes inside of a step.
    void by_slopes(std::size_t s) {
        const CtrnnDense& dense = *solve.dense();
        const Slot& slot = slots[s];
        real* nodes = nodes_of(s);
        const real dt = real(slot.dt);
        const auto stage = [&](std::size_t j) { return slope(j, s); };
        for (std::size_t m = 0; m < 2; ++m) {
            const double tau = slot.tau + dense.inside[m] * slot.dt;
            std::memcpy(inside[m], h[s], n.state * sizeof(real));
            add_weighted(inside[m], dt, dense.between + m * dense.stages, dense.stages, n.state, stage);
            field.read(0, m, slot.segment, slot.sample, tau);
        }
        field.evaluator.evaluate(0, 2, inside.at.data(), kept.at.data(), known.at.data() + 1);
        for (std::size_t m = 0; m < 2 && solve.given.speed_terms; ++m)
            scale(known[1 + m], solve.speed(slot.segment, slot.sample, slot.tau + dense.inside[m] * slot.dt), n.state);
        std::memcpy(known[0], slope(0, s), n.state * sizeof(real));
        std::memcpy(known[3], slope(dense.stages - 1, s), n.state * sizeof(real));
        std::memset(known[4], 0, n.state * sizeof(real));
        add_weighted(known[4], 1, dense.b, dense.stages, n.state, stage);
        solve.copy_state(h[s], nodes);
        for (std::size_t k = 1; k < NODES; ++k) {
            std::memset(error.data(), 0, n.state * sizeof(real));
            add_weighted(error.data(), dt, dense.mix + (k - 1) * 5, 5, n.state, [&](std::size_t i) { return known[i]; });
            solve.copy_state(error.data(), nodes + k * n.width);
        }
    }
#endif

    real*& slope(std::size_t stage, std::size_t s) { return k.at[stage * SLOTS + s]; }

    void evaluate(const Array<std::size_t>& on, std::size_t stage, double node, const Rows& at) {
        for (std::size_t m = 0; m < on.size(); ++m) {
            states[m] = at.at[on[m]];
            slopes[m] = slope(stage, on[m]);
        }
        evaluate(on, states.data(), slopes.data(), node, stage == 0);
    }

    // At these states, a row for each of the slots.
    void evaluate(const Array<std::size_t>& on, real* const* at, real* const* to, double node, bool first = false) {
        for (std::size_t m = 0; m < on.size(); ++m) {
            const Slot& slot = slots[on[m]];
            field.read(0, m, slot.segment, slot.sample, slot.tau + node * slot.dt);
            ++solve.samples[slot.sample].said.evaluations;
        }
        field.evaluator.evaluate(0, on.size(), at, kept.at.data(), to);
        if (!solve.given.speed_terms) return;
        for (std::size_t m = 0; m < on.size(); ++m) {
            const Slot& slot = slots[on[m]];
#if IMPLICIT
            if (first) std::memcpy(flows[on[m]], to[m], n.state * sizeof(real));
#else
            (void)first;
#endif
            scale(to[m], solve.speed(slot.segment, slot.sample, slot.tau + node * slot.dt), n.state);
        }
    }
};

}  // namespace

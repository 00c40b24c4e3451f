// Goes back through a few steps of a method that is written out as a program.
#pragma once

#include "halves_return.h"
#if IMPLICIT
#include "derivatives_return.h"
#endif

namespace {

// Back through a few steps at once: of_projected (like projected, added to).
class StepsBack : FieldCalls {
  public:
    StepsBack(const Solve& solve, real* of_projected)
        : solve(solve), n(solve.model), method(solve.method.given), count(method.calls_back),
          dense(solve.dense()), all(count + (dense ? 3 : 0)), pullback(n, SLOTS, larger(dense ? all : method.pulled, 3)),
          of_projected(of_projected), field(solve, SLOTS, larger(all, 1)),
          text(method.attempt_return(solve.method.shared, SLOTS)), y(SLOTS * all, n.state), k(SLOTS * all, n.state),
          kept(SLOTS * all, n.kept), of_y(SLOTS * all, n.state), of_k(SLOTS * all, n.state), to_h(SLOTS, n.state), dt(SLOTS),
          starts(SLOTS), cotangents(SLOTS), of_start(dense ? SLOTS : 0, n.state), of_stages(dense ? SLOTS * dense->stages : 0, n.state),
          of_nodes(dense ? NODES : 0, n.state)
#if IMPLICIT
          , derivatives(solve, method, of_projected)
#endif
    {
#if IMPLICIT
        derivatives.add_to_calls(*this);
#endif
        if (solve.by_halves()) halves = new HalvesBack(solve);
        for (std::size_t call = 0; call < all; ++call) {
            states.push_back(y.at.data() + call * SLOTS), slopes.push_back(k.at.data() + call * SLOTS);
            of_states.push_back(of_y.at.data() + call * SLOTS), of_slopes.push_back(of_k.at.data() + call * SLOTS);
        }
    }

    void run(const Array<TakenStep>& taken) {
        if (!halves) return go_back(taken);
        halves->run(taken, pullback, of_projected);
        go_back(halves->steps);
        go_back(taken);
        halves->end(taken);
    }

    void add(const StepsBack& other) {
        pullback.add(other.pullback);
#if IMPLICIT
        derivatives.add(other.derivatives);
#endif
    }
    void write(const CtrnnSums* to) const {
        pullback.write(*to);
#if IMPLICIT
        derivatives.write(to + 1);
#endif
    }

  private:
    void go_back(const Array<TakenStep>& taken) {
        on = &taken;
        const std::size_t rows = taken.size();
        for (std::size_t m = 0; m < rows; ++m) dt[m] = real(taken[m].step.dt), starts[m] = taken[m].h, cotangents[m] = taken[m].of_h;
#if IMPLICIT
        derivatives.begin(taken);
#endif
        if (dense) pull_nodes(rows);
        text->run(rows, starts.data(), dt.data(), *this, cotangents.data(), to_h.at.data());
        pullback.sum_up((dense ? all : method.pulled) * rows, y);
        for (std::size_t m = 0; m < rows; ++m) {
            std::memcpy(taken[m].of_h, to_h[m], n.state * sizeof(real));
            if (dense) add_to(taken[m].of_h, of_start[m], n.state);
        }
    }

    const Solve& solve;
    const Model& n;
    const CtrnnMethod& method;
    const std::size_t count;
    const CtrnnDense* dense;  // where steps became polynomials: three calls more, inside of a step and at its end
    const std::size_t all;
    Pullback pullback;
    real* of_projected;
    Field field;
    Owned<AttemptReturn> text;
    Rows y, k, kept, of_y, of_k, to_h;
    Array<real> dt;
    Array<const real*> starts, cotangents;
    Rows of_start, of_stages, of_nodes;  // cotangents that come of these polynomials
    Owned<HalvesBack> halves;  // where steps became polynomials by half a step more each
    const Array<TakenStep>* on = nullptr;
#if IMPLICIT
    DerivativesBack derivatives;

    void factor(std::size_t which, std::size_t m, real a, real b) override {
        derivatives.at_start.factor(m, a, b * derivatives.speed(m), which);
    }
    void solve_for(std::size_t which, std::size_t m, real* v, bool turned) override {
        turned ? derivatives.at_start.solve_turned(m, v, which) : derivatives.at_start.solve(m, v, which);
    }
    void multiply(std::size_t m, const real* v, real* to, bool turned) override {
        turned ? derivatives.at_start.multiply_turned(m, v, to) : derivatives.at_start.multiply(m, v, to);
        if (solve.given.speed_terms) scale(to, derivatives.speed(m), n.state);
    }
    void pull_jacobian(std::size_t rows) override { derivatives.pull_jacobian(rows); }
    void pull_drift(std::size_t rows) override { derivatives.pull_drift(rows); }
#endif

    double node(std::size_t call) const {
        return call < count ? method.nodes_back[call] : call < count + 2 ? dense->inside[call - count] : dense->nodes[dense->stages - 1];
    }
    double time(std::size_t call, std::size_t m) const { return (*on)[m].step.tau + node(call) * (*on)[m].step.dt; }

    // Times the clock's speed there.
    void hasten(std::size_t call, std::size_t rows, real* const* values) const {
        if (!solve.given.speed_terms) return;
        for (std::size_t m = 0; m < rows; ++m)
            scale(values[m], solve.speed((*on)[m].step.segment, (*on)[m].sample, time(call, m)), n.state);
    }

    void evaluate(std::size_t call, std::size_t rows) override {
        if (!dense) evaluate_field(call, rows);
    }

    void evaluate_field(std::size_t call, std::size_t rows) {
        for (std::size_t m = 0; m < rows; ++m) field.read(call, m, (*on)[m].step.segment, (*on)[m].sample, time(call, m));
        field.evaluator.evaluate(call, rows, states[call], kept.at.data() + call * SLOTS, slopes[call]);
        hasten(call, rows, slopes[call]);
    }

    void pull(std::size_t call, std::size_t rows) override {
        for (std::size_t m = 0; dense && m < rows; ++m) add_to(of_slopes[call][m], of_stages[call * SLOTS + m], n.state);
        pull_field(call, rows);
    }

    // The slope of a stage: that of the last is the third of the calls that are added.
    std::size_t call_of(std::size_t stage) const { return stage < count ? stage : count + 2; }

    void evaluate_at(std::size_t call, std::size_t rows, const double* weights, std::size_t stages) {
        for (std::size_t m = 0; m < rows; ++m) {
            std::memcpy(states[call][m], starts[m], n.state * sizeof(real));
            add_weighted(states[call][m], dt[m], weights, stages, n.state, [&](std::size_t j) { return slopes[call_of(j)][m]; });
        }
        evaluate_field(call, rows);
    }

    // Back through the polynomials of the steps: to the states before and after, and to the slopes at the stages.
    void pull_nodes(std::size_t rows) {
        const std::size_t stages = dense->stages;
        for (std::size_t j = 0; j < stages; ++j) evaluate_at(call_of(j), rows, dense->a + j * stages, j);
        for (std::size_t k = 0; k < 2; ++k) evaluate_at(count + k, rows, dense->between + k * stages, stages);
        for (std::size_t m = 0; m < rows; ++m) begin_pulling(m);
        for (std::size_t k = 0; k < 2; ++k) {
            pull_field(count + k, rows);
            for (std::size_t m = 0; m < rows; ++m) {
                add_to(of_start[m], of_states[count + k][m], n.state);
                for (std::size_t j = 0; j < stages; ++j)
                    add_weighted(of_stages[j * SLOTS + m], dt[m], dense->between + k * stages + j, 1, n.state,
                                 [&](std::size_t) { return of_states[count + k][m]; });
            }
        }
        for (std::size_t m = 0; m < rows; ++m) add_to(of_slopes[count + 2][m], of_stages[(stages - 1) * SLOTS + m], n.state);
        pull_field(count + 2, rows);
        for (std::size_t m = 0; m < rows; ++m) add_to((*on)[m].of_h, of_states[count + 2][m], n.state);
    }

    // The cotangents of the slopes that nodes are made of.
    void begin_pulling(std::size_t m) {
        for (std::size_t k = 1; k < NODES; ++k) solve.copy_state((*on)[m].of_nodes + k * n.width, of_nodes[k]);
        const auto sum_to = [&](real* to, std::size_t which) {
            std::memset(to, 0, n.state * sizeof(real));
            for (std::size_t k = 1; k < NODES; ++k)
                add_weighted(to, dt[m], dense->mix + (k - 1) * 5 + which, 1, n.state, [&](std::size_t) { return of_nodes[k]; });
        };
        std::memset(of_start[m], 0, n.state * sizeof(real));
        sum_to(of_nodes[0], 4);  // the mean
        for (std::size_t j = 0; j < dense->stages; ++j) {
            real* to = of_stages[j * SLOTS + m];
            if (j) std::memset(to, 0, n.state * sizeof(real));
            else sum_to(to, 0);
            add_weighted(to, 1, dense->b + j, 1, n.state, [&](std::size_t) { return of_nodes[0]; });
        }
        for (std::size_t k = 0; k < 3; ++k) sum_to(of_slopes[count + k][m], 1 + k);
    }

    void pull_field(std::size_t call, std::size_t rows) {
        hasten(call, rows, of_slopes[call]);
#if IMPLICIT
        for (std::size_t m = 0; call == 0 && m < rows; ++m) derivatives.add_to_flow(m, of_slopes[call][m]);  // the slope at the start
#endif
        pullback.back(field.evaluator, call, rows, states[call], kept.at.data() + call * SLOTS, of_slopes[call], of_states[call],
                      [&](std::size_t m, const real* of) {
                          solve.give((*on)[m].step.segment, (*on)[m].sample, time(call, m), of, of_projected);
                      });
    }
};

}  // namespace

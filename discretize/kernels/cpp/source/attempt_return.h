// Goes back through a few steps of a method that is written out as a program.
#pragma once

#if IMPLICIT
#include "derivatives_return.h"
#endif

namespace {

// Back through a few steps at once: of_projected (like projected, added to).
class StepsBack : FieldCalls {
  public:
    StepsBack(const Solve& solve, real* of_projected)
        : solve(solve), n(solve.model), method(solve.method.given), count(method.calls_back),
          pullback(n, SLOTS, larger(method.pulled, 1)), of_projected(of_projected), field(solve, SLOTS, larger(count, 1)),
          text(method.attempt_return(solve.method.shared, SLOTS)), y(SLOTS * count, n.state), k(SLOTS * count, n.state),
          kept(SLOTS * count, n.kept), of_y(SLOTS * count, n.state), of_k(SLOTS * count, n.state), to_h(SLOTS, n.state), dt(SLOTS),
          starts(SLOTS), cotangents(SLOTS)
#if IMPLICIT
          , derivatives(solve, method, of_projected)
#endif
    {
#if IMPLICIT
        derivatives.add_to_calls(*this);
#endif
        for (std::size_t call = 0; call < count; ++call) {
            states.push_back(y.at.data() + call * SLOTS), slopes.push_back(k.at.data() + call * SLOTS);
            of_states.push_back(of_y.at.data() + call * SLOTS), of_slopes.push_back(of_k.at.data() + call * SLOTS);
        }
    }

    void run(const std::vector<TakenStep>& taken) {
        on = &taken;
        const std::size_t rows = taken.size();
        for (std::size_t m = 0; m < rows; ++m) dt[m] = real(taken[m].step.dt), starts[m] = taken[m].h, cotangents[m] = taken[m].of_h;
#if IMPLICIT
        derivatives.begin(taken);
#endif
        text->run(rows, starts.data(), dt.data(), *this, cotangents.data(), to_h.at.data());
        pullback.sum_up(method.pulled * rows, y);
        for (std::size_t m = 0; m < rows; ++m) std::memcpy(taken[m].of_h, to_h[m], n.state * sizeof(real));
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
    const Solve& solve;
    const Model& n;
    const CtrnnMethod& method;
    const std::size_t count;
    Pullback pullback;
    real* of_projected;
    Field field;
    Owned<AttemptReturn> text;
    Rows y, k, kept, of_y, of_k, to_h;
    std::vector<real> dt;
    std::vector<const real*> starts, cotangents;
    const std::vector<TakenStep>* on = nullptr;
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

    double time(std::size_t call, std::size_t m) const { return (*on)[m].step.tau + method.nodes_back[call] * (*on)[m].step.dt; }

    // Times the clock's speed there.
    void hasten(std::size_t call, std::size_t rows, real* const* values) const {
        if (!solve.given.speed_terms) return;
        for (std::size_t m = 0; m < rows; ++m)
            scale(values[m], solve.speed((*on)[m].step.segment, (*on)[m].sample, time(call, m)), n.state);
    }

    void evaluate(std::size_t call, std::size_t rows) override {
        for (std::size_t m = 0; m < rows; ++m) field.read(call, m, (*on)[m].step.segment, (*on)[m].sample, time(call, m));
        field.evaluator.evaluate(call, rows, states[call], kept.at.data() + call * SLOTS, slopes[call]);
        hasten(call, rows, slopes[call]);
    }

    void pull(std::size_t call, std::size_t rows) override {
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

// Goes back through the derivatives of a field that a few steps of a method read at their start.
//
//     J has the cotangent sum_k q_k u_k^T: what it gives is the cotangent of sum_k q_k . J u_k
//
// so the derivative along each u_k is pulled back, as a slope is.
#pragma once

#include "derivatives.h"

namespace {

class DerivativesBack {
  public:
    Derivatives at_start;
    Rows drift, of_drift, from_drift, from_jacobian, lefts, rights;

    DerivativesBack(const Solve& solve, const CtrnnMethod& method, real* of_projected)
        : at_start(solve.model, SLOTS, method.factors_back), drift(SLOTS, solve.model.state), of_drift(SLOTS, solve.model.state),
          from_drift(SLOTS, solve.model.state), from_jacobian(SLOTS, solve.model.state), lefts(SLOTS * method.pairs, solve.model.state),
          rights(SLOTS * method.pairs, solve.model.state), solve(solve), n(solve.model), pairs(method.pairs),
          reads_drift(method.drift), together(smaller(larger(pairs, 1), MOST_ROWS / SLOTS)), of_projected(of_projected),
          field(solve, SLOTS, 1), along(*n.by_state, n.columns, SLOTS * together, 1), of_along(*n.by_state, n.columns, SLOTS * together, 1),
          flow(SLOTS, n.state), kept_flow(SLOTS, n.kept), both(SLOTS * together, roomy(2 * n.width)),
          of_both(SLOTS * together, roomy(2 * n.width)), kept(SLOTS * together, n.by_state->total), of(SLOTS * together, n.state),
          result(SLOTS * together, n.state) {
        if (n.by_input) in_time = new InTime(n);  // whose sums are 0 where a method reads no derivative by the time
    }

    void add_to_calls(FieldCalls& calls) {
        calls.drift = drift.at.data(), calls.of_drift = of_drift.at.data();
        calls.from_drift = from_drift.at.data(), calls.from_jacobian = from_jacobian.at.data();
        for (std::size_t k = 0; k < pairs; ++k)
            calls.lefts.push_back(lefts.at.data() + k * SLOTS), calls.rights.push_back(rights.at.data() + k * SLOTS);
    }

    void begin(const Array<TakenStep>& taken) {
        on = &taken;
        for (std::size_t m = 0; m < taken.size(); ++m) at_start.differentiate(m, input(m), taken[m].h);
        if (reads_drift && solve.moves()) drift_again();
    }

    real speed(std::size_t m) const { return solve.speed((*on)[m].step.segment, (*on)[m].sample, (*on)[m].step.tau); }

    // What the cotangent of the derivative by the time adds to that of the flow at the start, of which it is made on a clock.
    void add_to_flow(std::size_t m, real* of_flow) {
        if (!reads_drift || !solve.given.speed_terms) return;
        const real change = acceleration(m);
        for (std::size_t i = 0; i < n.state; i += LANES) store(of_flow + i, load(of_flow + i) + change * load(of_drift[m] + i));
    }

    void pull_jacobian(std::size_t rows) {
        for (std::size_t m = 0; m < rows; ++m) fill(from_jacobian[m], n.state, real(0));
        for (std::size_t first = 0; first < pairs; first += together) pull_pairs(rows, first, smaller(together, pairs - first));
    }

    void pull_drift(std::size_t rows) {
        for (std::size_t m = 0; m < rows; ++m) fill(from_drift[m], n.state, real(0));
        if (!solve.input_moves()) return;
        InTime& t = *in_time;
        t.evaluator.evaluate(0, rows, t.h.at.data(), t.kept.at.data(), t.to.at.data());
        for (std::size_t m = 0; m < rows; ++m) {
            std::memcpy(t.of[m], of_drift[m], n.state * sizeof(real));
            if (solve.given.speed_terms) scale(t.of[m], speed(m), n.state);
        }
        t.pullback.back(t.evaluator, 0, rows, t.h.at.data(), t.kept.at.data(), t.of.at.data(), from_drift.at.data(),
                        [&](std::size_t m, const real* of) {
                            const TakenStep& taken = (*on)[m];
                            solve.give(taken.step.segment, taken.sample, taken.step.tau, of, of_projected);
                            solve.give_rise(taken.step.segment, taken.sample, taken.step.tau, of + n.columns, of_projected);
                        });
        t.pullback.sum_up(rows, t.h);
    }

    void add(const DerivativesBack& other) {
        of_along.add(other.of_along);
        if (in_time) in_time->pullback.add(other.in_time->pullback);
    }

    void write(const CtrnnSums* to) const {
        of_along.write(to[0]);
        if (in_time) in_time->pullback.write(to[1]);
    }

  private:
    // The derivative by the time, of an input that moves.
    struct InTime {
        Evaluator evaluator;
        Pullback pullback;
        Rows both, h, kept, to, of;

        explicit InTime(const Model& n)
            : evaluator(*n.by_input, 2 * n.columns, SLOTS, 1), pullback(*n.by_input, 2 * n.columns, SLOTS, 1),
              both(SLOTS, roomy(2 * n.columns)), h(SLOTS, n.state), kept(SLOTS, n.by_input->total), to(SLOTS, n.state),
              of(SLOTS, n.state) {}
    };

    const Solve& solve;
    const Model& n;
    const std::size_t pairs, reads_drift, together;
    real* of_projected;
    Field field;
    Evaluator along;
    Pullback of_along;
    Owned<InTime> in_time;
    Rows flow, kept_flow, both, of_both, kept, of, result;
    const Array<TakenStep>* on = nullptr;

    const real* input(std::size_t m) { return field.at((*on)[m].step.segment, (*on)[m].sample, (*on)[m].step.tau); }
    real acceleration(std::size_t m) const { return solve.acceleration((*on)[m].step.segment, (*on)[m].sample, (*on)[m].step.tau); }

    void drift_again() {
        const std::size_t rows = on->size();
        for (std::size_t m = 0; m < rows; ++m) {
            const TakenStep& taken = (*on)[m];
            if (!solve.input_moves()) continue;
            const real* x = input(m);
            solve.rise(taken.step.segment, taken.sample, taken.step.tau, at_start.rise());
            at_start.differentiate_in_time(m, x, taken.h);
            std::memcpy(in_time->both[m], at_start.rise() - n.columns, 2 * n.columns * sizeof(real));
            std::memcpy(in_time->h[m], taken.h, n.state * sizeof(real));
            in_time->evaluator.read(0, m, in_time->both[m]);
        }
        if (solve.given.speed_terms) on_a_clock(rows);
        for (std::size_t m = 0; m < rows; ++m) std::memcpy(drift[m], at_start.drift(m), n.state * sizeof(real));
    }

    void on_a_clock(std::size_t rows) {
        FixedArray<real*, SLOTS> starts{};
        for (std::size_t m = 0; m < rows; ++m) {
            const TakenStep& taken = (*on)[m];
            starts[m] = const_cast<real*>(taken.h);  // which is read only
            field.read(0, m, taken.step.segment, taken.sample, taken.step.tau);
        }
        field.evaluator.evaluate(0, rows, starts.data(), kept_flow.at.data(), flow.at.data());
        for (std::size_t m = 0; m < rows; ++m) at_start.clock(m, speed(m), acceleration(m), flow[m]);
    }

    void pull_pairs(std::size_t rows, std::size_t first, std::size_t count) {
        for (std::size_t k = 0; k < count * rows; ++k) {
            const std::size_t m = k % rows, place = (first + k / rows) * SLOTS + m;
            along.read(0, k, input(m));
            std::memcpy(both[k], (*on)[m].h, n.width * sizeof(real));
            std::memcpy(both[k] + n.width, rights[place], n.width * sizeof(real));
            std::memcpy(of[k], lefts[place], n.state * sizeof(real));
            if (solve.given.speed_terms) scale(of[k], speed(m), n.state);
        }
        along.evaluate(0, count * rows, both.at.data(), kept.at.data(), result.at.data());
        of_along.back(along, 0, count * rows, both.at.data(), kept.at.data(), of.at.data(), of_both.at.data(),
                      [&](std::size_t k, const real* to) {
                          const TakenStep& taken = (*on)[k % rows];
                          solve.give(taken.step.segment, taken.sample, taken.step.tau, to, of_projected);
                      });
        of_along.sum_up(count * rows, both);
        for (std::size_t k = 0; k < count * rows; ++k) add_units(from_jacobian[k % rows], of_both[k], n.width);
    }
};

}  // namespace

// Goes back through polynomials that are made by half a step more each, those of a few steps at once. Their cotangents go to the states
// before and after a step, and to that after half of it, from where StepsBack takes them back through the half.
#pragma once

#include "row_stages.h"

namespace {

class HalvesBack {
  public:
    Array<TakenStep> steps;  // the halves

    explicit HalvesBack(const Solve& solve)
        : solve(solve), n(solve.model), field(solve, SLOTS, PARTS), states(PARTS * SLOTS, n.state), slopes(PARTS * SLOTS, n.state),
          kept(PARTS * SLOTS, n.kept), of_states(PARTS * SLOTS, n.state), of_slopes(PARTS * SLOTS, n.state), pulled(SLOTS, n.state) {}

    // Adds to the cotangents of the states after the steps; those after their halves are then in `steps`.
    void run(const Array<TakenStep>& taken, Pullback& pullback, real* of_projected) {
        steps.clear();
        for (std::size_t m = 0; m < taken.size(); ++m) begin(m, taken[m]);
        for (std::size_t part = 0; part < PARTS; ++part) pull(part, taken, pullback, of_projected);
        pullback.sum_up(PARTS * taken.size(), states);
        for (std::size_t m = 0; m < taken.size(); ++m) add_to(taken[m].of_h, of_states[2 * SLOTS + m], n.state);
    }

    // Adds to the cotangents of the states before the steps.
    void end(const Array<TakenStep>& taken) {
        for (std::size_t m = 0; m < taken.size(); ++m) {
            add_to(taken[m].of_h, of_states[m], n.state);
            add_to(taken[m].of_h, steps[m].of_h, n.state);
        }
    }

  private:
    static constexpr std::size_t PARTS = 3;  // the start of a step, half of it and its end

    const Solve& solve;
    const Model& n;
    Field field;
    Rows states, slopes, kept, of_states, of_slopes, pulled;

    void begin(std::size_t m, const TakenStep& taken) {
        const std::size_t half = SLOTS + m, end = 2 * SLOTS + m;
        const real dt = real(taken.step.dt);
        for (std::size_t k = m; k < PARTS * SLOTS; k += SLOTS) std::memset(of_states[k], 0, n.state * sizeof(real));
        for (std::size_t i = 0; i < n.width; ++i) {
            const auto node = [&](std::size_t k) { return taken.nodes[k * n.width + i]; };
            const auto of = [&](std::size_t k) { return taken.of_nodes[k * n.width + i]; };
            const real h = taken.h[i];
            states[m][i] = h, states[half][i] = h + node(2), states[end][i] = h + node(4);
            // A node that slopes gave is theirs here but for rounding, any other is off by more than `join` allows: half of that parts them.
            const bool by_slopes[] = {is_rounding(node(2) - to_half(node(1), node(3), node(5)), h, states[half][i], 0.5),
                                      is_rounding(node(4) - to_end(node(1), node(3), node(5)), h, states[end][i], 0.5)};
            const real of_half = by_slopes[0] ? of(2) : 0, of_end = by_slopes[1] ? of(4) : 0;
            of_slopes[m][i] = dt * (of(1) + to_half(of_half, 0, 0) + to_end(of_end, 0, 0));
            of_slopes[half][i] = dt * (of(3) + to_half(0, of_half, 0) + to_end(0, of_end, 0));
            of_slopes[end][i] = dt * (of(5) + to_half(0, 0, of_half) + to_end(0, 0, of_end));
            of_states[half][i] = of(2) - of_half, of_states[end][i] = of(4) - of_end;
            of_states[m][i] = -of_states[half][i] - of_states[end][i];
        }
        steps.push_back({taken.sample, {taken.step.segment, taken.step.tau, taken.step.dt / 2}, taken.h, of_states[half], nullptr, nullptr});
    }

    // Goes back through the slopes at one of the parts.
    void pull(std::size_t part, const Array<TakenStep>& taken, Pullback& pullback, real* of_projected) {
        const std::size_t rows = taken.size(), first = part * SLOTS;
        const auto tau = [&](std::size_t m) { return taken[m].step.tau + 0.5 * double(part) * taken[m].step.dt; };
        for (std::size_t m = 0; m < rows; ++m) {
            field.read(part, m, taken[m].step.segment, taken[m].sample, tau(m));
            if (!solve.given.speed_terms) continue;
            scale(of_slopes[first + m], solve.speed(taken[m].step.segment, taken[m].sample, tau(m)), n.state);
        }
        real *const *at = states.at.data() + first, *const *keep = kept.at.data() + first;
        field.evaluator.evaluate(part, rows, at, keep, slopes.at.data() + first);
        pullback.back(field.evaluator, part, rows, at, keep, of_slopes.at.data() + first, pulled.at.data(),
                      [&](std::size_t m, const real* of) { solve.give(taken[m].step.segment, taken[m].sample, tau(m), of, of_projected); });
        for (std::size_t m = 0; m < rows; ++m) add_to(of_states[first + m], pulled[m], n.state);
    }
};

}  // namespace

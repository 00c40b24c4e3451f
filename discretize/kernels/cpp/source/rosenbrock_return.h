// Back through steps of a Rosenbrock pair. With w = (1 - gamma dt J)^-T of the cotangent of u_i, that of the stage's slope is
//
//     q = gamma dt w        and J has the part q u_i^T: what it gives is the cotangent of q . J u_i
//
// so the derivative along u_i is pulled back, as the slope is.
#pragma once

#include "row_stages.h"

namespace {

class StepsBack {
  public:
    StepsBack(const Solve& solve, real* of_projected)
        : solve(solve), n(solve.model), method(solve.method), of_projected(of_projected), field(solve, SLOTS, STAGES),
          pullback(n, SLOTS, STAGES), along(*n.by_state, n.columns, SLOTS * STAGES, 1),
          of_along(*n.by_state, n.columns, SLOTS * STAGES, 1), stiff(n, SLOTS, 1), y(SLOTS * STAGES, n.state),
          kept(SLOTS * STAGES, n.kept), slopes(SLOTS, n.state), u(SLOTS * STAGES, n.state), of_y(SLOTS * STAGES, n.state),
          of_right(SLOTS * STAGES, n.state), of_slope(SLOTS * STAGES, n.state), both(SLOTS * STAGES, roomy(2 * n.width)),
          of_both(SLOTS * STAGES, roomy(2 * n.width)), kept_along(SLOTS * STAGES, n.by_state->total),
          result(SLOTS * STAGES, n.state), of_flow(SLOTS * STAGES, n.state), of_u(n.state) {
        if (!n.by_input) return;
        in_time = new InTime(n);
    }

    void run(const std::vector<TakenStep>& on) {
        for (std::size_t m = 0; m < on.size(); ++m) differentiate(m, on[m]);
        for (std::size_t stage = 0; stage < STAGES; ++stage) again(on, stage);
        for (std::size_t stage = STAGES; stage-- > 0;) back(on, stage);
        pullback.sum_up(STAGES * on.size(), y);
        jacobians_back(on);
        if (in_time) time_back(on);
        for (std::size_t m = 0; m < on.size(); ++m)  // what came to the end came to the place of the last stage as well
            for (std::size_t stage = 0; stage < STAGES; ++stage) add_to(on[m].of_h, of_y[stage * on.size() + m], n.state);
    }

    void add(const StepsBack& other) {
        pullback.add(other.pullback);
        of_along.add(other.of_along);
        if (in_time) in_time->pullback.add(other.in_time->pullback);
    }

    void write(const CtrnnSums* to) const {
        pullback.write(to[0]);
        of_along.write(to[1]);
        if (in_time) in_time->pullback.write(to[2]);
    }

  private:
    static constexpr std::size_t STAGES = 8;
    static_assert(SLOTS * STAGES <= MOST_ROWS, "all stages of all slots go back at once");

    // The derivative by the time, of an input that moves.
    struct InTime {
        Evaluator evaluator;
        Pullback pullback;
        Rows both, h, kept, to, of, of_h;

        explicit InTime(const Model& n)
            : evaluator(*n.by_input, 2 * n.columns, SLOTS, 1), pullback(*n.by_input, 2 * n.columns, SLOTS, 1),
              both(SLOTS, roomy(2 * n.columns)), h(SLOTS, n.state), kept(SLOTS, n.by_input->total), to(SLOTS, n.state),
              of(SLOTS, n.state), of_h(SLOTS, n.state) {}
    };

    const Solve& solve;
    const Model& n;
    const Rosenbrock& method;
    real* of_projected;
    Field field;
    Pullback pullback;
    Evaluator along;
    Pullback of_along;
    Derivatives stiff;
    Owned<InTime> in_time;
    Rows y, kept, slopes, u, of_y, of_right, of_slope, both, of_both, kept_along, result, of_flow;
    Numbers of_u;

    double time(const Step& step, std::size_t stage) const { return step.tau + method.nodes[stage] * step.dt; }
    real speed(const TakenStep& taken, std::size_t stage) const {
        return solve.speed(taken.step.segment, taken.sample, time(taken.step, stage));
    }
    real acceleration(const TakenStep& taken) const {
        return solve.given.speed_terms ? solve.acceleration(taken.step.segment, taken.sample, taken.step.tau) : real(0);
    }

    void differentiate(std::size_t m, const TakenStep& taken) {
        const Step& step = taken.step;
        const real* x = field.at(step.segment, taken.sample, step.tau);
        stiff.differentiate(m, x, taken.h);
        stiff.factor(m, 1, -real(method.gamma * step.dt) * speed(taken, 0));
        if (!in_time) return;
        solve.rise(step.segment, taken.sample, step.tau, stiff.rise());
        stiff.differentiate_in_time(m, x, taken.h);
        std::memcpy(in_time->both[m], stiff.rise() - n.columns, 2 * n.columns * sizeof(real));
        std::memcpy(in_time->h[m], taken.h, n.state * sizeof(real));
        in_time->evaluator.read(0, m, in_time->both[m]);
    }

    // A stage forwards.
    void again(const std::vector<TakenStep>& on, std::size_t stage) {
        const std::size_t rows = on.size(), first = stage * rows;
        for (std::size_t m = 0; m < rows; ++m) {
            for (std::size_t i = 0; i < n.state; i += LANES)
                store(y[first + m] + i,
                      load(on[m].h + i) + method.rows[stage].at(i, [&](std::size_t j) { return u[j * rows + m]; }));
            field.read(stage, m, on[m].step.segment, on[m].sample, time(on[m].step, stage));
        }
        field.evaluator.evaluate(stage, rows, y.at.data() + first, kept.at.data() + first, slopes.at.data());
        for (std::size_t m = 0; m < rows; ++m) {
            if (solve.given.speed_terms) {
                if (stage == 0) stiff.clock(m, speed(on[m], 0), acceleration(on[m]), slopes[m]);
                scale(slopes[m], speed(on[m], stage), n.state);
            }
            method.right(stage, real(on[m].step.dt), n.state, slopes[m], solve.moves() ? stiff.drift(m) : nullptr,
                         [&](std::size_t j) { return u[j * rows + m]; }, u[first + m]);
            stiff.solve(m, u[first + m]);
        }
    }

    void back(const std::vector<TakenStep>& on, std::size_t stage) {
        const std::size_t rows = on.size(), first = stage * rows;
        for (std::size_t m = 0; m < rows; ++m) {
            for (std::size_t i = 0; i < n.state; i += LANES) {
                vec total = method.columns[stage].at(
                    i, [&](std::size_t j) { return j < STAGES ? of_y[j * rows + m] : of_right[(j - STAGES) * rows + m]; });
                if (stage == STAGES - 1) total += load(on[m].of_h + i);
                store(of_u.data() + i, total);
            }
            stiff.solve_turned(m, of_u.data());
            for (std::size_t i = 0; i < n.state; i += LANES) {
                const vec right = real(method.gamma) * load(of_u.data() + i);
                store(of_right[first + m] + i, right);
                store(of_slope[first + m] + i, real(on[m].step.dt) * right);
            }
        }
        for (std::size_t m = 0; m < rows; ++m) to_flow(on[m], stage, m, rows);
        pullback.back(field.evaluator, stage, rows, y.at.data() + first, kept.at.data() + first, of_flow.at.data() + first,
                      of_y.at.data() + first, [&](std::size_t m, const real* of) {
                          solve.give(on[m].step.segment, on[m].sample, time(on[m].step, stage), of, of_projected);
                      });
        if (stage == STAGES - 1)
            for (std::size_t m = 0; m < rows; ++m) take_end(on[m], of_y[first + m]);
    }

    // The cotangent of a stage's flow: of its slope, and of the first one also of the derivative by the time, which has it.
    void to_flow(const TakenStep& taken, std::size_t stage, std::size_t m, std::size_t rows) {
        const real pace = speed(taken, stage), change = stage ? real(0) : acceleration(taken) * real(taken.step.dt);
        for (std::size_t i = 0; i < n.state; i += LANES) {
            vec value = pace * load(of_slope[stage * rows + m] + i);
            if (change != 0) value += change * of_drift(i, m, rows);
            store(of_flow[stage * rows + m] + i, value);
        }
    }

    // The cotangent of the derivative by the time, over the length of the step.
    vec of_drift(std::size_t i, std::size_t m, std::size_t rows) {
        vec total = {};
        for (std::size_t stage = 0; stage < STAGES; ++stage) total += method.from_time[stage] * load(of_slope[stage * rows + m] + i);
        return total;
    }

    // The end of a step is the place of its last stage and its last u.
    void take_end(const TakenStep& taken, real* of_last) {
        add_to(of_last, taken.of_h, n.state);
        std::memset(taken.of_h, 0, n.state * sizeof(real));
    }

    void jacobians_back(const std::vector<TakenStep>& on) {
        const std::size_t rows = on.size();
        for (std::size_t k = 0; k < STAGES * rows; ++k) {
            const TakenStep& taken = on[k % rows];
            along.read(0, k, field.at(taken.step.segment, taken.sample, taken.step.tau));
            std::memcpy(both[k], taken.h, n.width * sizeof(real));
            std::memcpy(both[k] + n.width, u[k], n.width * sizeof(real));
        }
        along.evaluate(0, STAGES * rows, both.at.data(), kept_along.at.data(), result.at.data());
        for (std::size_t k = 0; k < STAGES * rows; ++k) {
            std::memcpy(of_flow[k], of_slope[k], n.state * sizeof(real));
            if (solve.given.speed_terms) scale(of_flow[k], speed(on[k % rows], 0), n.state);
        }
        of_along.back(along, 0, STAGES * rows, both.at.data(), kept_along.at.data(), of_flow.at.data(), of_both.at.data(),
                      [&](std::size_t k, const real* of) {
                          const TakenStep& taken = on[k % rows];
                          solve.give(taken.step.segment, taken.sample, taken.step.tau, of, of_projected);
                      });
        of_along.sum_up(STAGES * rows, both);
        for (std::size_t k = 0; k < STAGES * rows; ++k) add_units(on[k % rows].of_h, of_both[k], n.width);
    }

    void time_back(const std::vector<TakenStep>& on) {
        InTime& t = *in_time;
        const std::size_t rows = on.size();
        t.evaluator.evaluate(0, rows, t.h.at.data(), t.kept.at.data(), t.to.at.data());
        for (std::size_t m = 0; m < rows; ++m) {
            const real dt = real(on[m].step.dt) * speed(on[m], 0);
            for (std::size_t i = 0; i < n.state; i += LANES) store(t.of[m] + i, dt * of_drift(i, m, rows));
        }
        t.pullback.back(t.evaluator, 0, rows, t.h.at.data(), t.kept.at.data(), t.of.at.data(), t.of_h.at.data(),
                        [&](std::size_t m, const real* of) {
                            const Step& step = on[m].step;
                            solve.give(step.segment, on[m].sample, step.tau, of, of_projected);
                            solve.give_rise(step.segment, on[m].sample, step.tau, of + n.columns, of_projected);
                        });
        t.pullback.sum_up(rows, t.h);
        for (std::size_t m = 0; m < rows; ++m) add_to(on[m].of_h, t.of_h[m], n.state);
    }
};

}  // namespace

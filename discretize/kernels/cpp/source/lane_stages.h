// Computes the stages of a step of a few samples at once, each in its own lane, and goes back through them. All lanes compute every
// stage; results of idle lanes are ignored.
#pragma once

#include "solve.h"

namespace {

// Some numbers of each slot, one after the other.
class Lanes {
  public:
    Lanes(const Solve& solve, std::size_t numbers) : slots(solve.slots), values(numbers * slots) {}
    real* data() { return values.data(); }
    std::size_t size() const { return values.size(); }
    real& at(std::size_t i, std::size_t s) { return values[i * slots + s]; }

    void set(std::size_t s, const real* row) {
        for (std::size_t p = s; p < size(); p += slots) values[p] = *row++;
    }
    void get(std::size_t s, real* row) const {
        for (std::size_t p = s; p < size(); p += slots) *row++ = values[p];
    }
    void take(std::size_t s, const Lanes& from) {
        for (std::size_t p = s; p < size(); p += slots) values[p] = from.values[p];
    }
    // use(p, s): for all vectors of lanes, those of the slots from s on
    template <class Use> void each(Use use) const {
        for (std::size_t p = 0, s = 0; p < size(); p += LANES, s = s + LANES < slots ? s + LANES : 0) use(p, s);
    }
    // Times numbers of which each slot has one.
    void scale(Lanes& by) {
        each([&](std::size_t p, std::size_t s) { store(data() + p, load(data() + p) * load(by.data() + s)); });
    }

  private:
    std::size_t slots;
    Numbers values;
};

// use(p, s, sum) for all vectors of lanes: step times the sum over j of weight_j k_j.
template <class Use> void each_sum(const Combination& of, Lanes& step, std::vector<Lanes>& k, Use use) {
    constexpr std::size_t TOGETHER = 4;
    std::array<const real*, 32> from;
    for (std::size_t j = 0; j < of.of.size(); ++j) from[j] = k[of.of[j]].data();
    vec total[TOGETHER];
    const auto add = [&](std::size_t p, auto many) {  // of a constant number of vectors the sums stay in registers
        for (vec& one : total) one = vec{};
        for (std::size_t j = 0; j < of.of.size(); ++j)
            for (std::size_t v = 0; v < many; ++v) total[v] += of.weights[j] * load(from[j] + p + v * LANES);
    };
    std::size_t first = 0, many = 0;
    k[0].each([&](std::size_t p, std::size_t s) {
        if (p == first + many * LANES) {
            first = p;
            many = smaller(TOGETHER, (k[0].size() - p) / LANES);
            if (many == TOGETHER) add(p, std::integral_constant<std::size_t, TOGETHER>{});
            else add(p, many);
        }
        use(p, s, load(step.data() + s) * total[(p - first) / LANES]);
    });
}

// The inputs and the clocks' speeds of slots.
class Inputs {
  public:
    Lanes x, speed;

    explicit Inputs(const Solve& solve) : x(solve, solve.model.columns), speed(solve, 1), solve(solve), there(solve.model.columns) {}

    // `moved`: whether it was at another sample or segment before.
    void read(std::size_t s, std::size_t segment, std::size_t sample, double tau, bool moved) {
        if (solve.given.share || moved) x.set(s, at(segment, sample, tau));
        if (solve.given.speed_terms) speed.at(0, s) = solve.speed(segment, sample, tau);
    }

  private:
    const Solve& solve;
    Numbers there;

    const real* at(std::size_t segment, std::size_t sample, double tau) {
        if (!solve.given.share) return solve.projected(solve.piece(segment, sample), sample);
        solve.sum_up(segment, sample, solve.shares(segment, sample, tau), there.data());
        return there.data();
    }
};

class Stages {
  public:
    Stages(Solve& solve, std::vector<Slot>& slots)
        : solve(solve), n(solve.model), slots(slots), inputs(solve), h(solve, n.width), y(h), fresh(h), step(solve, 1), size(step),
          power(step), atol(h), k(solve.method.stages + 1, h), row(n.state), read_segment(slots.size()) {
        for (std::size_t i = 0; i < n.width; ++i)
            for (std::size_t s = 0; s < slots.size(); ++s) atol.at(i, s) = real(solve.given.atol[i]);
    }

    void begin() {}
    void end() {}

    // A sample's first state.
    void enter(std::size_t s, const real* state) {
        h.set(s, state);
        read_segment[s] = NOWHERE;
    }
    // The state of a slot; a unit of a slope.
    const real* state(std::size_t s) {
        h.get(s, row.data());
        return row.data();
    }
    real slope_at(std::size_t stage, std::size_t s, std::size_t i) { return k[stage].at(i, s); }

    void slopes_at_start(const std::vector<std::size_t>& on) {
        read(on, 0);
        count(on, 1);
        evaluate(h, fresh);
        for (std::size_t s : on) k[0].take(s, fresh);  // others keep theirs, whatever their neighbours do
    }

    // The second slope, behind an Euler step.
    void slopes_after_euler(const std::vector<std::size_t>& on) {
        set_steps(on);
        h.each([&](std::size_t p, std::size_t s) {
            store(y.data() + p, load(h.data() + p) + load(step.data() + s) * load(k[0].data() + p));
        });
        read(on, 1);
        count(on, 1);
        evaluate(y, k[1]);
    }

    // Into y, and how large the errors are.
    void attempt(const std::vector<std::size_t>& on) {
        const Method& method = solve.method;
        set_steps(on);
        for (std::size_t stage = 1; stage <= method.stages; ++stage) {
            advance(method.rows[stage - 1]);
            read(on, method.nodes[stage - 1]);
            evaluate(y, k[stage]);
        }
        count(on, std::int64_t(method.stages));
        if (!method.last_is_next) advance(method.end);
        judge();
    }

    // How large the error of a step is, 1 the largest that is allowed; nan where it is not finite.
    double error_of(std::size_t s) { return size.at(0, s); }
    // That to the power -1 / order.
    double factor(std::size_t s, double) { return power.at(0, s); }

    void accept(std::size_t s) {
        h.take(s, y);
        if (solve.method.last_is_next) k[0].take(s, k[solve.method.stages]);
    }

    // The error of the last step of a slot.
    void estimate(std::size_t s, real* to) {
        for (std::size_t i = 0; i < n.width; ++i) {
            real total = 0;
            const Combination& error = solve.method.error;
            for (std::size_t j = 0; j < error.of.size(); ++j) total += error.weights[j] * k[error.of[j]].at(i, s);
            to[i] = step.at(0, s) * total;
        }
    }

  private:
    static constexpr std::size_t NOWHERE = std::size_t(-1);

    Solve& solve;
    const Model& n;
    std::vector<Slot>& slots;
    Inputs inputs;
    Lanes h, y, fresh, step, size, power, atol;
    std::vector<Lanes> k;
    Numbers row;
    std::vector<std::size_t> read_segment;

    void set_steps(const std::vector<std::size_t>& on) {
        for (std::size_t s : on) step.at(0, s) = real(slots[s].dt);
    }

    void count(const std::vector<std::size_t>& on, std::int64_t evaluations) {
        for (std::size_t s : on) solve.samples[slots[s].sample].said.evaluations += evaluations;
    }

    void read(const std::vector<std::size_t>& on, double node) {
        for (std::size_t s : on) {
            const Slot& slot = slots[s];
            inputs.read(s, slot.segment, slot.sample, slot.tau + node * slot.dt, slot.segment != read_segment[s]);
            read_segment[s] = slot.segment;
        }
    }

    void evaluate(Lanes& at, Lanes& to) {
        n.program.lane_flow(&n.program, solve.slots, inputs.x.data(), at.data(), to.data());
        if (solve.given.speed_terms) to.scale(inputs.speed);
    }

    void advance(const Combination& of) {
        each_sum(of, step, k, [&](std::size_t p, std::size_t, vec change) { store(y.data() + p, load(h.data() + p) + change); });
    }

    void judge() {
        const vec rtol = splat(real(solve.given.rtol));
        const Lanes nothing(solve, 1);
        Lanes &largest = size, &finite = power;
        largest = finite = nothing;
        each_sum(solve.method.error, step, k, [&](std::size_t p, std::size_t s, vec error) {
            const vec before = absolute(load(h.data() + p)), after = absolute(load(y.data() + p));
            const vec q = absolute(error) / (load(atol.data() + p) + rtol * (before < after ? after : before));
            const vec until = load(largest.data() + s);
            store(largest.data() + s, q > until ? q : until);
            // 0, or nan where the error or a state is not finite
            store(finite.data() + s, load(finite.data() + s) + (q - q) + (after - after));
        });
        size.each([&](std::size_t p, std::size_t) {
            const vec q = real(ERROR_MARGIN) * load(largest.data() + p) + load(finite.data() + p);
            store(size.data() + p, q);
            store(power.data() + p, exponential(logarithm(q) * real(-1 / solve.method.order)));
        });
    }
};

// Back through a few steps of an explicit pair at once: of_projected (like projected, added to).
class StepsBack {
  public:
    StepsBack(const Solve& solve, real* of_projected)
        : solve(solve), n(solve.model), method(solve.method), of_projected(of_projected), h(solve, n.width), step(solve, 1),
          of_slope(h), of_x(solve, n.columns), k(method.used, h), y(method.used, h), of_y(method.used + 1, h),
          inputs(method.used, Inputs(solve)), sums(n.program.lane_sums * LANES), row(n.state), x_row(n.columns) {}

    void run(const std::vector<TakenStep>& on) {
        for (std::size_t s = 0; s < solve.slots; ++s) {
            const bool there = s < on.size();
            // Nobody's lanes go back from nothing, and where somebody is: what is infinite elsewhere would not be nothing times it.
            const TakenStep& taken = on[there ? s : 0];
            h.set(s, taken.h);
            step.at(0, s) = real(taken.step.dt);
            for (std::size_t stage = 0; stage < method.used; ++stage)
                inputs[stage].read(s, taken.step.segment, taken.sample, time(taken.step, stage), true);
            of_y[method.used].set(s, taken.of_h);
            if (there) continue;
            for (std::size_t i = 0; i < n.width; ++i) of_y[method.used].at(i, s) = 0;
        }
        for (std::size_t stage = 0; stage < method.used; ++stage) again(stage);
        for (std::size_t stage = method.used; stage-- > 0;) back(on, stage);
        for (std::size_t s = 0; s < on.size(); ++s) {
            of_y[method.used].get(s, row.data());
            for (Lanes& of : of_y) {
                if (&of == &of_y[method.used]) continue;
                for (std::size_t i = 0; i < n.width; ++i) row[i] += of.at(i, s);
            }
            solve.copy_state(row.data(), on[s].of_h);
        }
    }

    void add(const StepsBack& other) {
        for (std::size_t p = 0; p < sums.size(); p += LANES) store(sums.data() + p, load(sums.data() + p) + load(other.sums.data() + p));
    }

    void write(const CtrnnSums* to) const {
        const real* from = sums.data();
        for (std::size_t k = 0; k < to->sums; ++k)
            for (std::size_t i = 0; i < to->heights[k] * to->widths[k]; ++i, from += LANES) to->sum[k][i] = sum(load(from));
    }

  private:
    const Solve& solve;
    const Model& n;
    const Tableau& method;
    real* of_projected;
    Lanes h, step, of_slope, of_x;
    std::vector<Lanes> k, y, of_y;
    std::vector<Inputs> inputs;
    Numbers sums, row, x_row;

    double time(const Step& step, std::size_t stage) const {
        return step.tau + (stage ? solve.method.nodes[stage - 1] * step.dt : 0.0);
    }

    void again(std::size_t stage) {
        if (stage)
            each_sum(method.rows[stage - 1], step, k, [&](std::size_t p, std::size_t, vec change) {
                store(y[stage].data() + p, load(h.data() + p) + change);
            });
        else std::memcpy(y[0].data(), h.data(), h.size() * sizeof(real));
        n.program.lane_flow(&n.program, solve.slots, inputs[stage].x.data(), y[stage].data(), k[stage].data());
        if (solve.given.speed_terms) k[stage].scale(inputs[stage].speed);
    }

    // The cotangent of a stage's flow, from those of what its slope leads to; and of the state the slope was taken at.
    void back(const std::vector<TakenStep>& on, std::size_t stage) {
        each_sum(method.columns[stage], step, of_y, [&](std::size_t p, std::size_t, vec change) { store(of_slope.data() + p, change); });
        if (solve.given.speed_terms) of_slope.scale(inputs[stage].speed);
        n.program.lane_return(&n.program, solve.slots, inputs[stage].x.data(), y[stage].data(), of_slope.data(), of_y[stage].data(),
                              of_x.data(), sums.data());
        if (!n.columns) return;
        for (std::size_t s = 0; s < on.size(); ++s) {
            of_x.get(s, x_row.data());
            solve.give(on[s].step.segment, on[s].sample, time(on[s].step, stage), x_row.data(), of_projected);
        }
    }
};

}  // namespace

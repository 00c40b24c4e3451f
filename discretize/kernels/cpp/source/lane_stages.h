// Computes a step of a few samples at once, each in its own lane, and goes back through it. All lanes compute every stage; results of
// idle lanes are ignored.
#pragma once

#include "solve.h"

namespace {

// Some numbers of each slot side by side: number i of slot s is at [i * slots + s].
struct Lanes {
    const std::size_t slots, size;

    Lanes(const Solve& solve, std::size_t numbers) : slots(solve.slots), size(numbers * slots) {}

    void set(real* to, std::size_t s, const real* row) const {
        for (std::size_t p = s; p < size; p += slots) to[p] = *row++;
    }
    void get(const real* from, std::size_t s, real* row) const {
        for (std::size_t p = s; p < size; p += slots) *row++ = from[p];
    }
    void take(real* to, std::size_t s, const real* from) const {
        for (std::size_t p = s; p < size; p += slots) to[p] = from[p];
    }
    // use(p, s): for all vectors of lanes, those of the slots from s on
    template <class Use> void each(Use use) const {
        for (std::size_t p = 0, s = 0; p < size; p += LANES, s = s + LANES < slots ? s + LANES : 0) use(p, s);
    }
};

// The flow of the slots' samples, by call: what is read there, and how fast the clocks go.
class Flow {
  public:
    Flow(const Solve& solve, std::size_t calls)
        : solve(solve), n(solve.model), inputs(solve, n.columns), of(solve, n.width), x(calls, inputs.size), speed(calls, solve.slots),
          there(n.columns) {}

    // `moved`: whether it was at another sample or segment before.
    void read(std::size_t call, std::size_t s, std::size_t segment, std::size_t sample, double tau, bool moved) {
        if (solve.given.share || moved) inputs.set(x[call], s, at(segment, sample, tau));
        if (solve.given.speed_terms) speed[call][s] = solve.speed(segment, sample, tau);
    }

    void evaluate(std::size_t call, const real* h, real* slope) {
        n.program.lane_flow(&n.program, solve.slots, x[call], h, slope);
        hasten(call, slope);
    }

    // The cotangents of slopes, which are written over, to those of the states and of what was read.
    void back(std::size_t call, const real* h, real* of_slope, real* of_h, real* of_x, real* sums) {
        hasten(call, of_slope);
        n.program.lane_return(&n.program, solve.slots, x[call], h, of_slope, of_h, of_x, sums);
    }

  private:
    const Solve& solve;
    const Model& n;
    const Lanes inputs, of;
    Rows x, speed;
    Numbers there;

    void hasten(std::size_t call, real* slope) {
        if (!solve.given.speed_terms) return;
        of.each([&](std::size_t p, std::size_t s) { store(slope + p, load(slope + p) * load(speed[call] + s)); });
    }

    const real* at(std::size_t segment, std::size_t sample, double tau) {
        if (!solve.given.share) return solve.projected(solve.piece(segment, sample), sample);
        solve.sum_up(segment, sample, solve.shares(segment, sample, tau), there.data());
        return there.data();
    }
};

class Stages : FieldCalls {
  public:
    Stages(Solve& solve, Array<Slot>& slots)
        : solve(solve), n(solve.model), method(solve.method.given), slots(slots), flow(solve, 1), lanes(solve, n.width),
          numbers(5, lanes.size), ones(3, solve.slots), k(larger(method.calls, 2), lanes.size), asked(method.calls, lanes.size),
          text(method.attempt(solve.method.shared, 1)), row(n.state), read_segment(slots.size()) {
        for (std::size_t i = 0; i < n.width; ++i) fill(atol + i * solve.slots, solve.slots, real(solve.given.atol[i]));
        if (method.following) asked.at[method.following] = y;
        for (std::size_t call = 0; call < method.calls; ++call) states.push_back(&asked.at[call]), slopes.push_back(&k.at[call]);
    }

    void begin() {}
    void end() {}

    // A sample's first state.
    void enter(std::size_t s, const real* state) {
        lanes.set(h, s, state);
        read_segment[s] = NOWHERE;
    }
    // The state of a slot; a unit of a slope.
    const real* state(std::size_t s) {
        lanes.get(h, s, row.data());
        return row.data();
    }
    real slope_at(std::size_t stage, std::size_t s, std::size_t i) { return k[stage][i * solve.slots + s]; }

    void slopes_at_start(const Array<std::size_t>& those) {
        evaluate(those, 0, h, fresh);
        for (std::size_t s : those) lanes.take(k[0], s, fresh);  // others keep theirs, whatever their neighbours do
    }

    // The second slope, behind an Euler step.
    void slopes_after_euler(const Array<std::size_t>& those) {
        set_steps(those);
        lanes.each([&](std::size_t p, std::size_t s) { store(y + p, load(h + p) + load(step + s) * load(k[0] + p)); });
        evaluate(those, 1, y, k[1]);
    }

    // Into y, and how large the errors are.
    void attempt(const Array<std::size_t>& those) {
        on = &those;
        set_steps(those);
        text->run(1, &h, step, *this, &y, &error);
        judge();
    }

    // How large the error of a step is, 1 the largest that is allowed; nan where it is not finite.
    double error_of(std::size_t s) { return size[s]; }
    // That to the power -1 / order.
    double factor(std::size_t s, double) { return power[s]; }

    void accept(std::size_t s) {
        lanes.take(h, s, y);
        if (solve.method.last_is_next) lanes.take(k[0], s, k[solve.method.end_slope]);
    }

    // The error of the last step of a slot.
    void estimate(std::size_t s, real* to) { lanes.get(error, s, to); }

  private:
    static constexpr std::size_t NOWHERE = std::size_t(-1);

    Solve& solve;
    const Model& n;
    const CtrnnMethod& method;
    Array<Slot>& slots;
    Flow flow;
    const Lanes lanes;
    Rows numbers, ones, k, asked;  // k and asked by call: the slopes, and the states that the attempt asks for them at
    real *const h = numbers[0], *const y = numbers[1], *const fresh = numbers[2], *const error = numbers[3], *const atol = numbers[4];
    real *const step = ones[0], *const size = ones[1], *const power = ones[2];
    const Owned<Attempt> text;
    const Array<std::size_t>* on = nullptr;
    Numbers row;
    Array<std::size_t> read_segment;

    void set_steps(const Array<std::size_t>& those) {
        for (std::size_t s : those) step[s] = real(slots[s].dt);
    }

    void evaluate(std::size_t call, std::size_t) override { evaluate(*on, method.nodes[call], asked.at[call], k[call]); }
    void pull(std::size_t, std::size_t) override {}

    // The slopes of all slots at these states, of whom those count.
    void evaluate(const Array<std::size_t>& those, double node, const real* at, real* to) {
        for (std::size_t s : those) {
            const Slot& slot = slots[s];
            flow.read(0, s, slot.segment, slot.sample, slot.tau + node * slot.dt, slot.segment != read_segment[s]);
            read_segment[s] = slot.segment;
            ++solve.samples[slot.sample].said.evaluations;
        }
        flow.evaluate(0, at, to);
    }

    void judge() {
        const vec rtol = splat(real(solve.given.rtol));
        real *const largest = size, *const finite = power;
        fill(largest, solve.slots, 0), fill(finite, solve.slots, 0);
        lanes.each([&](std::size_t p, std::size_t s) {
            const vec before = absolute(load(h + p)), after = absolute(load(y + p));
            const vec q = absolute(load(error + p)) / (load(atol + p) + rtol * (before < after ? after : before));
            const vec until = load(largest + s);
            store(largest + s, q > until ? q : until);
            // 0, or nan where the error or a state is not finite
            store(finite + s, load(finite + s) + (q - q) + (after - after));
        });
        for (std::size_t s = 0; s < solve.slots; s += LANES) {
            const vec q = real(ERROR_MARGIN) * load(largest + s) + load(finite + s);
            store(size + s, q);
            store(power + s, exponential(logarithm(q) * real(-1 / solve.method.order)));
        }
    }
};

// Back through a few steps at once: of_projected (like projected, added to).
class StepsBack : FieldCalls {
  public:
    StepsBack(const Solve& solve, real* of_projected)
        : solve(solve), n(solve.model), method(solve.method.given), of_projected(of_projected), flow(solve, method.calls_back),
          lanes(solve, n.width), inputs(solve, n.columns), numbers(3, lanes.size), step(solve.slots), of_x(inputs.size),
          k(method.calls_back, lanes.size), y(method.calls_back, lanes.size), of_k(method.calls_back, lanes.size),
          of_y(method.calls_back, lanes.size), text(method.attempt_return(solve.method.shared, 1)), sums(n.program.lane_sums * LANES),
          row(n.state), x_row(n.columns) {
        for (std::size_t call = 0; call < method.calls_back; ++call) {
            states.push_back(&y.at[call]), slopes.push_back(&k.at[call]);
            of_states.push_back(&of_y.at[call]), of_slopes.push_back(&of_k.at[call]);
        }
    }

    void run(const Array<TakenStep>& taken) {
        on = &taken;
        for (std::size_t s = 0; s < solve.slots; ++s) {
            lanes.set(h, s, in(s).h);
            step[s] = real(in(s).step.dt);
            lanes.set(cotangent, s, s < taken.size() ? in(s).of_h : nothing.data());
        }
        text->run(1, &h, step.data(), *this, &cotangent, &to_h);
        for (std::size_t s = 0; s < taken.size(); ++s) {
            lanes.get(to_h, s, row.data());
            solve.copy_state(row.data(), taken[s].of_h);
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
    const CtrnnMethod& method;
    real* of_projected;
    Flow flow;
    const Lanes lanes, inputs;
    Rows numbers;
    real *const h = numbers[0], *const cotangent = numbers[1], *const to_h = numbers[2];
    Numbers step, of_x;
    Rows k, y, of_k, of_y;  // by call
    const Owned<AttemptReturn> text;
    const Array<TakenStep>* on = nullptr;
    Numbers sums, row, x_row;
    const Numbers nothing = Numbers(n.width);

    // Nobody's lanes go back from nothing, and where somebody is: what is infinite elsewhere would not be nothing times it.
    const TakenStep& in(std::size_t s) const { return (*on)[s < on->size() ? s : 0]; }
    double time(std::size_t call, const Step& step) const { return step.tau + method.nodes_back[call] * step.dt; }

    void evaluate(std::size_t call, std::size_t) override {
        for (std::size_t s = 0; s < solve.slots; ++s)
            flow.read(call, s, in(s).step.segment, in(s).sample, time(call, in(s).step), true);
        flow.evaluate(call, y[call], k[call]);
    }

    void pull(std::size_t call, std::size_t) override {
        flow.back(call, y[call], of_k[call], of_y[call], of_x.data(), sums.data());
        if (!n.columns) return;
        for (std::size_t s = 0; s < on->size(); ++s) {
            inputs.get(of_x.data(), s, x_row.data());
            solve.give(in(s).step.segment, in(s).sample, time(call, in(s).step), x_row.data(), of_projected);
        }
    }
};

}  // namespace

// Exact solves along inputs whose pieces are polynomials: every sample with steps of its own, each segment ended by a step that lands on
// its end, and the way back through the steps that were taken.
//
// The rule of steps is that of discretize/solvers/adaptive.py, to the letter. Samples do not wait for one another: those of a group
// fill a few slots, one attempted step of each slot makes a round, and a slot that is done takes the next sample.
// Their field is evaluated together, so the weights are read once for all slots.

#include "solve.h"
#if IMPLICIT
#include "rosenbrock_return.h"
#endif

namespace {

// A group of samples on their way.
class SolverState {
  public:
    SolverState(Solve& solve, std::size_t first, std::size_t end)
        : solve(solve), n(solve.model), field(solve, SLOTS, 1), next(first), end(end), h(SLOTS, n.state), y(SLOTS, n.state),
          kept(SLOTS, n.kept), k(SLOTS * (solve.method.stages + 2), n.state), slots(SLOTS), error(n.state) {}

    // True once all samples are where they should be, false at the deadline.
    bool run(Clock::time_point deadline) {
#if IMPLICIT
        if (!stiff) stiff = std::make_unique<Derivatives>(solve.model, SLOTS);
#endif
        const bool done = by_slots(
            slots, next, end, deadline, [this](std::size_t s, std::size_t sample) { begin(s, sample); },
            [this](std::vector<std::size_t>& on) { round(on); });
#if IMPLICIT
        if (done) stiff.reset();
#endif
        return done;
    }

  private:
    struct Slot {
        bool taken = false, begun = false, known = false, held_back = false;
        bool differentiated = false;  // of implicit methods: the Jacobian at the state
        std::size_t sample = 0, segment = 0;
        double tau = 0, step = 0, dt = 0, steps = 1;
        std::int64_t tried = 0;  // in this segment
    };

    Solve& solve;
    const Model& n;
    Field field;
    std::size_t next, end;
    Rows h, y, kept, k;
    std::vector<Slot> slots;
    Numbers error;
    std::array<real*, SLOTS> states{}, slopes{};         // of an evaluation
    std::vector<std::size_t> unknown, new_ones, going;  // of a round

    real*& slope(std::size_t stage, std::size_t s) { return k.at[stage * SLOTS + s]; }

    void begin(std::size_t s, std::size_t sample) {
        slots[s] = Slot{};
        slots[s].taken = true;
        slots[s].sample = sample;
        if (solve.given.steps) slots[s].step = solve.given.steps[sample], slots[s].begun = slots[s].step > 0;
        n.widen(solve.given.h0 + sample * n.width, h[s]);
        solve.write(0, sample, h[s]);
        ahead(s);
    }

    // Past segments of no length, to the next one or to the end.
    void ahead(std::size_t s) {
        Slot& slot = slots[s];
        while (slot.segment < solve.given.segments && solve.length(slot.segment, slot.sample) <= 0)
            solve.write(++slot.segment, slot.sample, h[s]), ++solve.landed;
        if (slot.segment < solve.given.segments && slot.segment <= solve.last_segment) return;
        slot.taken = false;
        solve.samples[slot.sample].said.step = slot.step;
    }

    void evaluate(const std::vector<std::size_t>& on, std::size_t stage, double node, const Rows& at) {
        for (std::size_t m = 0; m < on.size(); ++m) {
            Slot& slot = slots[on[m]];
            field.read(0, m, slot.segment, slot.sample, slot.tau + node * slot.dt);
            states[m] = at.at[on[m]];
            slopes[m] = slope(stage, on[m]);
            ++solve.samples[slot.sample].said.evaluations;
        }
        field.evaluator.evaluate(0, on.size(), states.data(), kept.at.data(), slopes.data());
        if (!solve.given.speed_terms) return;
        for (std::size_t m = 0; m < on.size(); ++m) {
            const Slot& slot = slots[on[m]];
#if IMPLICIT
            if (stage == 0) std::memcpy(flows[on[m]], slopes[m], n.state * sizeof(real));
#endif
            scale(slopes[m], solve.speed(slot.segment, slot.sample, slot.tau + node * slot.dt), n.state);
        }
    }

    void round(std::vector<std::size_t>& on) {
        unknown.clear(), new_ones.clear(), going.clear();
        for (std::size_t s : on) {
            if (!slots[s].known) unknown.push_back(s);
            if (!slots[s].begun) new_ones.push_back(s);
        }
        if (!unknown.empty()) evaluate(unknown, 0, 0, h);
        for (std::size_t s : unknown) slots[s].known = true;
        if (!new_ones.empty()) first_steps(new_ones);
        for (std::size_t s : on)
            if (can_go_on(s)) going.push_back(s);
        if (going.empty()) return;
        attempt(going);
        for (std::size_t s : going) judge(s);
    }

#if IMPLICIT
    Rows flows{SLOTS, n.state};          // at the start of a step, before the clock's speed
    std::unique_ptr<Derivatives> stiff;  // while the group is on its way: a matrix for each slot is much memory

    // Into y; behind the slope at the start lie what the stages were solved for, and last a slope.
    void attempt(const std::vector<std::size_t>& on) {
        const Method& method = solve.method;
        differentiate(on);
        for (std::size_t stage = 0; stage < method.stages; ++stage) {
            if (stage) {
                for (std::size_t s : on)
                    for (std::size_t i = 0; i < n.state; i += LANES)
                        store(y[s] + i, load(h[s] + i) + method.rows[stage].at(i, [&](std::size_t j) { return slope(1 + j, s); }));
                evaluate(on, method.stages + 1, method.nodes[stage], y);
            }
            for (std::size_t s : on) {
                real* u = slope(1 + stage, s);
                method.right(stage, real(slots[s].dt), n.state, slope(stage ? method.stages + 1 : 0, s),
                             solve.moves() ? stiff->drift(s) : nullptr, [&](std::size_t j) { return slope(1 + j, s); }, u);
                stiff->solve(s, u);
            }
        }
        for (std::size_t s : on) add_to(y[s], slope(method.stages, s), n.state);
    }

    void differentiate(const std::vector<std::size_t>& on) {
        for (std::size_t s : on) {
            Slot& slot = slots[s];
            if (!slot.differentiated) {
                const real* x = field.at(slot.segment, slot.sample, slot.tau);
                stiff->differentiate(s, x, h[s]);
                if (solve.given.share) {
                    solve.rise(slot.segment, slot.sample, slot.tau, stiff->rise());
                    stiff->differentiate_in_time(s, x, h[s]);
                }
                if (solve.given.speed_terms) stiff->clock(s, speed_of(slot), acceleration_of(slot), flows[s]);
                solve.samples[slot.sample].said.evaluations += std::int64_t(solve.given.jacobian_cost);
                slot.differentiated = true;
            }
            stiff->factor(s, real(solve.method.gamma * slot.dt) * speed_of(slot));
        }
    }

    real speed_of(const Slot& slot) const { return solve.speed(slot.segment, slot.sample, slot.tau); }
    real acceleration_of(const Slot& slot) const { return solve.acceleration(slot.segment, slot.sample, slot.tau); }

    void estimate(std::size_t s, real* to) { std::memcpy(to, slope(solve.method.stages, s), n.state * sizeof(real)); }
#else
    // Into y.
    void attempt(const std::vector<std::size_t>& on) {
        const Method& method = solve.method;
        for (std::size_t stage = 1; stage <= method.stages; ++stage) {
            for (std::size_t s : on) sum_up(method.rows[stage - 1], s, y[s]);
            evaluate(on, stage, method.nodes[stage - 1], y);
        }
        if (method.last_is_next) return;
        for (std::size_t s : on) sum_up(method.end, s, y[s]);
    }

    // h + dt sum of slopes
    void sum_up(const Combination& of, std::size_t s, real* to) {
        const real dt = real(slots[s].dt);
        for (std::size_t i = 0; i < n.state; i += LANES)
            store(to + i, load(h[s] + i) + dt * of.at(i, [&](std::size_t j) { return slope(j, s); }));
    }

    // The error of the step: dt sum of slopes
    void estimate(std::size_t s, real* to) {
        const real dt = real(slots[s].dt);
        for (std::size_t i = 0; i < n.state; i += LANES)
            store(to + i, dt * solve.method.error.at(i, [&](std::size_t j) { return slope(j, s); }));
    }
#endif

    // max over units of margin |value| / (atol + rtol |state|); nan where any is
    template <class States, class Values> double size(States state, Values value) const {
        double largest = 0;
        n.each_unit([&](std::size_t i) {
            const double q = std::fabs(double(value(i))) / (solve.given.atol + solve.given.rtol * std::fabs(double(state(i))));
            if (!(q <= largest)) largest = std::isnan(q) || std::isnan(largest) ? NAN : q;
        });
        return ERROR_MARGIN * largest;
    }

    static auto of_row(const real* row) {
        return [row](std::size_t i) { return row[i]; };
    }

    void first_steps(const std::vector<std::size_t>& on) {
        if (solve.given.first_step > 0) {
            for (std::size_t s : on) slots[s].step = solve.given.first_step, slots[s].begun = true;
            return;
        }
        for (std::size_t s : on) {
            Slot& slot = slots[s];
            const double length = solve.length(slot.segment, slot.sample), near = length > 0 ? 1e-3 * length : 1e-6;
            const double far = size(of_row(h[s]), of_row(h[s])), fast = size(of_row(h[s]), of_row(slope(0, s)));
            double guess = far > 1e-5 && fast > 1e-5 ? 0.01 * far / fast : near;
            slot.dt = std::isfinite(guess) && guess > 0 ? guess : near;
            for (std::size_t i = 0; i < n.state; i += LANES)
                store(y[s] + i, load(h[s] + i) + real(slot.dt) * load(slope(0, s) + i));
        }
        evaluate(on, 1, 1, y);
        for (std::size_t s : on) {
            Slot& slot = slots[s];
            const double guess = slot.dt, fast = size(of_row(h[s]), of_row(slope(0, s)));
            const double bend = size(of_row(h[s]), [&](std::size_t i) { return slope(1, s)[i] - slope(0, s)[i]; }) / guess;
            const double steepest = std::fmax(fast, bend);
            const double by_error = steepest > 1e-15 ? std::pow(0.01 / steepest, 1 / solve.method.order) : guess;
            slot.step = by_error > 0 ? std::fmin(100 * guess, by_error) : guess;
            slot.begun = true;
        }
    }

    std::int64_t taken(std::size_t sample) const {
        const CtrnnReport& said = solve.samples[sample].said;
        return said.accepted + said.rejected + (solve.given.taken ? solve.given.taken[sample] : 0);
    }

    // The next step of a slot; false, and said why, where there is none.
    bool can_go_on(std::size_t s) {
        Slot& slot = slots[s];
        Sample& sample = solve.samples[slot.sample];
        const double length = solve.length(slot.segment, slot.sample);
        int cause = 0;
        if (slot.tried >= solve.given.max_num_steps) cause = 1;
        else if (taken(slot.sample) >= solve.given.most_steps) cause = 3;
        else if (!(slot.tau + slot.step > slot.tau) || (slot.held_back && slot.step < SHORTEST_STEP * length)) cause = 2;
        if (cause) {
            sample.said.cause = cause;
            sample.said.segment = std::int64_t(slot.segment);
            sample.said.tau = slot.tau;
            sample.said.step = slot.step;
            sample.said.rejected_last = slot.held_back;
            sample.h.assign(h[s], h[s] + n.state);
            if (slot.held_back) {
                sample.error.resize(n.state);
                estimate(s, sample.error.data());
            }
            slot.taken = false;
            std::size_t last = solve.last_segment;
            while (slot.segment < last && !solve.last_segment.compare_exchange_weak(last, slot.segment)) {}
            return false;
        }
        const double remaining = length - slot.tau;
        // To the landing, if they were equal.
        slot.steps = std::fmax(std::ceil(remaining / slot.step * (1 - 1e-3)), 1.0);
        slot.steps = std::fmax(slot.steps, std::ceil(remaining / solve.given.max_step * (1 - 1e-12)));
        slot.dt = remaining / slot.steps;
        return true;
    }

    void judge(std::size_t s) {
        Slot& slot = slots[s];
        ++slot.tried;
        Sample& sample = solve.samples[slot.sample];
        const double length = solve.length(slot.segment, slot.sample);
        const real *before = h[s], *after = y[s];
        estimate(s, error.data());
        // y - y is nan where a step went to infinity, which by its own measure would be no error at all.
        for (std::size_t i = 0; i < n.state; i += LANES)
            store(error.data() + i, load(error.data() + i) + (load(after + i) - load(after + i)));
        double q = size([=](std::size_t i) { return std::max(std::fabs(before[i]), std::fabs(after[i])); }, of_row(error.data()));
        if (std::isnan(q)) q = INFINITY;
        const bool finite = std::isfinite(q), accepted = q <= 1 || (finite && slot.dt <= solve.given.min_step);
        double factor = std::fmin(std::fmax(SAFETY * std::pow(q, -1 / solve.method.order), SHRINK), GROW);
        if (slot.held_back && accepted) factor = std::fmin(factor, 1.0);
        // A step cut short by landing says little when its error is nothing; the one proposed before it still holds.
        double proposed = finite ? std::fmax(slot.dt * factor, solve.given.min_step) : slot.dt * factor;
        if (accepted && factor >= GROW) proposed = std::fmax(proposed, slot.step);
        slot.step = proposed;
        slot.held_back = !accepted;
        if (!accepted) {
            ++sample.said.rejected;
            return;
        }
        count(slot, sample, q);
        if (sample.steps.size() < solve.given.keep) {
            sample.steps.push_back({slot.segment, slot.tau, slot.dt});
            const std::size_t before = sample.states.size();
            sample.states.resize(before + n.width);
            n.narrow(h[s], sample.states.data() + before);
        }
        std::swap(h.at[s], y.at[s]);
        slot.differentiated = false;
        slot.known = solve.method.last_is_next;
        if (slot.known) std::swap(slope(0, s), slope(solve.method.stages, s));
        slot.tau = slot.steps == 1 ? length : slot.tau + slot.dt;
        if (slot.tau < length) return;
        solve.write(++slot.segment, slot.sample, h[s]);
        ++solve.landed;
        slot.tau = 0;
        slot.tried = 0;
        slot.held_back = slot.known = false;
        ahead(s);
    }

    void count(const Slot& slot, Sample& sample, double q) {
        CtrnnReport& said = sample.said;
        if (!said.accepted || slot.dt < said.smallest) {
            said.smallest = slot.dt;
            said.smallest_segment = std::int64_t(slot.segment);
            said.smallest_tau = slot.tau;
        }
        ++said.accepted;
        if (q > 1 && !said.forced++) {
            said.forced_segment = std::int64_t(slot.segment);
            said.forced_tau = slot.tau;
            said.forced_error = q;
        }
    }
};

#if !IMPLICIT
// Back through a few steps of an explicit pair at once: of_projected (like projected, added to).
class StepsBack {
  public:
    StepsBack(const Solve& solve, real* of_projected)
        : solve(solve), pullback(solve.model, SLOTS, solve.method.used), n(solve.model), of_projected(of_projected),
          field(solve, SLOTS, solve.method.used), k(SLOTS * solve.method.used, n.state), y(SLOTS * solve.method.used, n.state),
          kept(SLOTS * solve.method.used, n.kept), of_y(SLOTS * solve.method.used, n.state), of_slope(SLOTS, n.state) {}

    void run(const std::vector<TakenStep>& on) {
        const Tableau& method = solve.method;
        const std::size_t rows = on.size();
        for (std::size_t stage = 0; stage < method.used; ++stage) {
            for (std::size_t m = 0; m < rows; ++m) {
                const Step& step = on[m].step;
                real* to = y[stage * rows + m];
                if (!stage) std::memcpy(to, on[m].h, n.state * sizeof(real));
                else
                    for (std::size_t i = 0; i < n.state; i += LANES)
                        store(to + i, load(on[m].h + i) + real(step.dt) * method.rows[stage - 1].at(i, [&](std::size_t j) {
                                          return k[j * rows + m];
                                      }));
                field.read(stage, m, step.segment, on[m].sample, time(step, stage));
            }
            const std::size_t first = stage * rows;
            field.evaluator.evaluate(stage, rows, y.at.data() + first, kept.at.data() + first, k.at.data() + first);
            if (!solve.given.speed_terms) continue;
            for (std::size_t m = 0; m < rows; ++m) scale(k[first + m], speed(on[m], stage), n.state);
        }
        for (std::size_t stage = method.used; stage-- > 0;) back(on, stage);
        pullback.sum_up(method.used * rows, y);
        for (std::size_t m = 0; m < rows; ++m)
            for (std::size_t stage = 0; stage < method.used; ++stage) add_to(on[m].of_h, of_y[stage * rows + m], n.state);
    }

    void add(const StepsBack& other) { pullback.add(other.pullback); }
    void write(const CtrnnSums* to) const { pullback.write(*to); }

  private:
    const Solve& solve;
    Pullback pullback;
    const Model& n;
    real* of_projected;
    Field field;
    Rows k, y, kept, of_y, of_slope;

    double time(const Step& step, std::size_t stage) const {
        return step.tau + (stage ? solve.method.nodes[stage - 1] * step.dt : 0.0);
    }

    real speed(const TakenStep& taken, std::size_t stage) const {
        return solve.speed(taken.step.segment, taken.sample, time(taken.step, stage));
    }

    // The cotangent of a stage's flow, from those of what its slope leads to; and of the state the slope was taken at.
    void back(const std::vector<TakenStep>& on, std::size_t stage) {
        const Tableau& method = solve.method;
        const std::size_t rows = on.size(), first = stage * rows;
        for (std::size_t m = 0; m < rows; ++m) {
            const real dt = real(on[m].step.dt) * speed(on[m], stage);
            for (std::size_t i = 0; i < n.state; i += LANES)
                store(of_slope[m] + i, dt * method.columns[stage].at(i, [&](std::size_t j) {
                                           return j == method.used ? on[m].of_h : of_y[j * rows + m];
                                       }));
        }
        pullback.back(field.evaluator, stage, rows, y.at.data() + first, kept.at.data() + first, of_slope.at.data(),
                      of_y.at.data() + first, [&](std::size_t m, const real* of) {
                          solve.give(on[m].step.segment, on[m].sample, time(on[m].step, stage), of, of_projected);
                      });
    }
};
#endif

// A group of samples on their way back: of_hs (wanted, batch, state) -> of_projected (like projected, added to), of_h0.
class Return {
  public:
    Return(const Solve& solve, const real* of_hs, real* of_projected, real* of_h0, std::size_t first, std::size_t end)
        : solve(solve), steps_back(solve, of_projected), n(solve.model), of_hs(of_hs), of_h0(of_h0), next(first), end(end),
          of_h(SLOTS, n.state), starts(SLOTS, n.state), given(n.state), slots(SLOTS) {}

    bool run(Clock::time_point deadline) {
        return by_slots(
            slots, next, end, deadline, [this](std::size_t s, std::size_t sample) { begin(s, sample); },
            [this](std::vector<std::size_t>& on) { round(on); });
    }

    const Solve& solve;
    StepsBack steps_back;

  private:
    struct Slot {
        bool taken = false;
        std::size_t sample = 0, left = 0, edge = 0;
    };

    const Model& n;
    const real* of_hs;
    real* of_h0;
    std::size_t next, end;
    Rows of_h, starts;
    Numbers given;
    std::vector<Slot> slots;
    std::vector<TakenStep> taken;  // of a round

    void begin(std::size_t s, std::size_t sample) {
        slots[s] = {true, sample, solve.samples[sample].steps.size(), solve.given.segments + 1};
        std::memset(of_h[s], 0, n.state * sizeof(real));
        ahead(s);
    }

    // Down to the end of the next step, taking in what came to the edges on the way; or down to the start.
    void ahead(std::size_t s) {
        Slot& slot = slots[s];
        const std::size_t to = slot.left ? solve.samples[slot.sample].steps[slot.left - 1].segment + 1 : 0;
        while (slot.edge > to) {
            const std::int64_t place = solve.given.places[--slot.edge];
            if (place < 0) continue;
            n.widen(of_hs + (std::size_t(place) * solve.given.batch + slot.sample) * n.width, given.data());
            add_to(of_h[s], given.data(), n.state);
        }
        if (slot.left) return;
        n.narrow(of_h[s], of_h0 + slot.sample * n.width);
        slot.taken = false;
    }

    void round(const std::vector<std::size_t>& on) {
        taken.clear();
        for (std::size_t s : on) {
            const Slot& slot = slots[s];
            const Sample& sample = solve.samples[slot.sample];
            const std::size_t last = slot.left - 1;
            n.widen(sample.states.data() + last * n.width, starts[s]);
            taken.push_back({slot.sample, sample.steps[last], starts[s], of_h[s]});
        }
        steps_back.run(taken);
        for (std::size_t s : on) {
            --slots[s].left;
            ahead(s);
        }
    }
};

// Work that is done for a while at a time, so that the caller can be interrupted.
struct Task {
    virtual ~Task() = default;
    // 0 all done, 1 not yet, 2 out of memory
    virtual int run(double seconds) = 0;
};

// Work on groups of samples.
template <class Group> class Running : public Task {
  public:
    std::vector<std::unique_ptr<Group>> groups;
    std::vector<char> done;

    template <class Make> Running(const Solve& solve, std::size_t share, Make make) : threads(solve.given.threads) {
        const std::size_t batch = solve.given.batch;
        for (std::size_t first = 0; first < batch; first += share) groups.push_back(make(first, std::min(batch, first + share)));
        done.assign(groups.size(), 0);
    }

    int run(double seconds) override {
        const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
        const bool enough = in_parallel(groups.size(), threads, [&](std::size_t i) {
            if (!done[i] && Clock::now() < deadline) done[i] = groups[i]->run(deadline);
        });
        if (!enough) return 2;
        for (char each : done)
            if (!each) return 1;
        return 0;
    }

  private:
    std::size_t threads;
};

struct Forwards : Solve, Running<SolverState> {
    explicit Forwards(const CtrnnProblem& p)
        : Solve(p), Running(*this, SLOTS, [this](std::size_t first, std::size_t end) {
              return std::make_unique<SolverState>(*this, first, end);
          }) {}

    int run(double seconds) override {
        const int state = Running::run(seconds);
        if (state == 0) groups.clear();  // what only the flight needed
        return state;
    }
};

struct Backwards : Running<Return> {
    Backwards(const Solve& solve, const real* of_hs, real* of_projected, real* of_h0)
        : Running(solve, SLOTS * ((solve.given.batch + SLOTS * MOST_GROUPS - 1) / (SLOTS * MOST_GROUPS)),
                  [&](std::size_t first, std::size_t end) {
                      return std::make_unique<Return>(solve, of_hs, of_projected, of_h0, first, end);
                  }) {}
};

template <class Make> Task* or_null(Make make) {
    try {
        return make();
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

const Forwards& solve_of(const Task* task) { return static_cast<const Forwards&>(*task); }

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// A solve, not begun; null where memory ran out. To be closed.
EXPORTED Task* ctrnn_solve_open(const CtrnnProblem* problem) {
    return or_null([&] { return new Forwards(*problem); });
}

// The way back of a solve that kept its steps and is done; likewise.
EXPORTED Task* ctrnn_return_open(const Task* solve, const real* of_hs, real* of_projected, real* of_h0) {
    return or_null([&] { return new Backwards(solve_of(solve), of_hs, of_projected, of_h0); });
}

// On with either for so many seconds: 0 done, 1 not yet, 2 out of memory.
EXPORTED int ctrnn_run(Task* task, double seconds) { return task->run(seconds); }

EXPORTED void ctrnn_close(Task* task) { delete task; }

// How much of a solve is done, from 0 to 1.
EXPORTED double ctrnn_solve_progress(const Task* task) {
    const Solve& solve = solve_of(task);
    return double(solve.landed) / (double(solve.given.segments) * double(solve.given.batch));
}

EXPORTED void ctrnn_solve_report(const Task* task, std::size_t sample, CtrnnReport* to) {
    *to = solve_of(task).samples[sample].said;
}

// Where a sample failed: its state, and the error of its last try where that was rejected; (state,) each.
EXPORTED void ctrnn_solve_failure(const Task* task, std::size_t sample, real* h, real* error) {
    const Solve& solve = solve_of(task);
    const Sample& failed = solve.samples[sample];
    if (!failed.h.empty()) solve.model.narrow(failed.h.data(), h);
    if (!failed.error.empty()) solve.model.narrow(failed.error.data(), error);
}

// The steps a sample took, of a solve that kept them, (accepted,) each; and the states before them, (accepted, state).
EXPORTED void ctrnn_solve_steps(const Task* task, std::size_t sample, std::int64_t* segment, double* tau, real* h) {
    const Solve& solve = solve_of(task);
    const Sample& one = solve.samples[sample];
    for (std::size_t k = 0; k < one.steps.size(); ++k) {
        segment[k] = std::int64_t(one.steps[k].segment);
        tau[k] = one.steps[k].tau;
        std::memcpy(h + k * solve.model.width, one.states.data() + k * solve.model.width, solve.model.width * sizeof(real));
    }
}

// The weights' gradients, of each program of the model. Once, when the way back is done.
EXPORTED void ctrnn_return_sums(Task* way, const CtrnnSums* to) {
    auto& groups = static_cast<Backwards*>(way)->groups;
    for (std::size_t i = 1; i < groups.size(); ++i) groups[0]->steps_back.add(groups[i]->steps_back);
    groups[0]->steps_back.write(to);
}

// Exact solves along inputs whose pieces are polynomials: every sample with steps of its own, each segment ended by a step that lands on
// its end, and the way back through the steps that were taken.
//
// The rule of steps is that of discretize/solvers/adaptive.py, to the letter. Samples do not wait for one another: those of a group
// fill a few slots, one attempted step of each slot makes a round, and a slot that is done takes the next sample.
// Their field is evaluated together, so the weights are read once for all slots.

#if LANEWISE
#include "lane_stages.h"
#else
#include "row_stages.h"
#include "attempt_return.h"
#endif

namespace {

// A group of samples on their way.
class SolverState {
  public:
    SolverState(Solve& solve, std::size_t first, std::size_t end)
        : solve(solve), n(solve.model), slots(solve.slots), stages(solve, slots), next(first), end(end) {}

    // True once all samples are where they should be, false at the deadline.
    bool run(double deadline) {
        stages.begin();
        const bool done = by_slots(
            slots, next, end, deadline, [this](std::size_t s, std::size_t sample) { begin(s, sample); },
            [this](Array<std::size_t>& on) { round(on); });
        if (done) stages.end();
        return done;
    }

  private:
    Solve& solve;
    const Model& n;
    Array<Slot> slots;
    Stages stages;
    std::size_t next, end;
    Array<std::size_t> unknown, new_ones, going, taken_now, polynomials;  // of a round
    std::size_t longest = 0;  // steps of one sample so far, for which the next one has room from the start

    void begin(std::size_t s, std::size_t sample) {
        slots[s] = Slot{};
        slots[s].taken = true;
        slots[s].sample = sample;
        if (solve.given.steps) slots[s].step = solve.given.steps[sample], slots[s].begun = slots[s].step > 0;
        solve.samples[sample].steps.reserve(longest);
        solve.samples[sample].states.reserve(longest * n.width);
        stages.enter(s, solve.given.h0 + sample * n.width);
        solve.write(0, sample, stages.state(s));
        ahead(s);
    }

    void leave(Slot& slot) {
        slot.taken = false;
        longest = larger(longest, solve.samples[slot.sample].steps.size());
    }

    // Past segments of no length, to the next one or to the end.
    void ahead(std::size_t s) {
        Slot& slot = slots[s];
        while (slot.segment < solve.given.segments && solve.length(slot.segment, slot.sample) <= 0)
            solve.write(++slot.segment, slot.sample, stages.state(s)), solve.land();
        if (slot.segment < solve.given.segments && !solve.beyond_last(slot.segment)) {
            if (solve.begins_block(slot.segment)) slot.begun = false;
            return;
        }
        leave(slot);
        solve.samples[slot.sample].said.step = slot.step;
    }

    void round(Array<std::size_t>& on) {
        unknown.clear(), new_ones.clear(), going.clear();
        for (std::size_t s : on) {
            if (!slots[s].known && (solve.method.reads_start || !slots[s].begun)) unknown.push_back(s);
            if (!slots[s].begun) new_ones.push_back(s);
        }
        if (!unknown.empty()) stages.slopes_at_start(unknown);
        for (std::size_t s : unknown) slots[s].known = true;
        if (!new_ones.empty()) first_steps(new_ones);
        for (std::size_t s : on)
            if (can_go_on(s)) going.push_back(s);
        if (going.empty()) return;
        stages.attempt(going);
        taken_now.clear();
        for (std::size_t s : going)
            if (judge(s)) taken_now.push_back(s);
        keep(taken_now);
        for (std::size_t s : taken_now) take(s);
    }

    auto state(std::size_t s) {
        return [row = stages.state(s)](std::size_t i) { return row[i]; };
    }
    auto slope(std::size_t stage, std::size_t s) {
        return [this, stage, s](std::size_t i) { return stages.slope_at(stage, s, i); };
    }

    void first_steps(const Array<std::size_t>& on) {
        if (solve.given.first_step > 0) {
            for (std::size_t s : on) slots[s].step = solve.given.first_step, slots[s].begun = true;
            return;
        }
        for (std::size_t s : on) {
            Slot& slot = slots[s];
            const double length = solve.length(slot.segment, slot.sample), near = 1e-3 * length;
            const double far = solve.size(state(s), state(s)), fast = solve.size(state(s), slope(0, s));
            double guess = far > 1e-5 && fast * length > 1e-5 ? 0.01 * far / fast : near;
            slot.dt = __builtin_isfinite(guess) && guess > 0 ? guess : near;
        }
        stages.slopes_after_euler(on);
        for (std::size_t s : on) {
            Slot& slot = slots[s];
            const double guess = slot.dt, fast = solve.size(state(s), slope(0, s)), length = solve.length(slot.segment, slot.sample);
            const auto change = [&](std::size_t i) { return stages.slope_at(1, s, i) - stages.slope_at(0, s, i); };
            const double bend = solve.size(state(s), change) / guess;
            const double steepest = __builtin_fmax(fast, bend * length) * length;
            const double by_error = steepest > 1e-15 ? __builtin_pow(0.01 / steepest, 1 / solve.method.order) * length : guess;
            slot.step = __builtin_fmax(by_error > 0 ? __builtin_fmin(100 * guess, by_error) : guess, solve.given.min_step);
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
            const real* h = stages.state(s);
            sample.h.assign(h, h + n.state);
            if (slot.held_back) {
                sample.error.resize(n.state);
                stages.estimate(s, sample.error.data());
            }
            leave(slot);
            solve.end_with(slot.segment);
            return false;
        }
        const double remaining = length - slot.tau;
        // To the landing, if they were equal.
        slot.steps = __builtin_fmax(__builtin_ceil(remaining / slot.step * (1 - 1e-3)), 1.0);
        slot.steps = __builtin_fmax(slot.steps, __builtin_ceil(remaining / solve.given.max_step * (1 - 1e-12)));
        slot.dt = remaining / slot.steps;
        return true;
    }

    // Tells whether a step is accepted, and proposes the next one.
    bool judge(std::size_t s) {
        Slot& slot = slots[s];
        ++slot.tried;
        Sample& sample = solve.samples[slot.sample];
        const double length = solve.length(slot.segment, slot.sample);
        double q = stages.error_of(s);
        if (__builtin_isnan(q)) q = __builtin_inf();
        const bool finite = __builtin_isfinite(q), accepted = q <= 1 || (finite && slot.dt <= solve.given.min_step);
        double factor = __builtin_fmin(__builtin_fmax(SAFETY * stages.factor(s, q), SHRINK), GROW);
        if (slot.held_back && accepted) factor = __builtin_fmin(factor, 1.0);
        // A step cut short by landing says little when its error is nothing; the one proposed before it still holds.
        double proposed = finite ? __builtin_fmax(slot.dt * factor, solve.given.min_step) : slot.dt * factor;
        if (accepted && factor >= GROW) proposed = __builtin_fmax(proposed, slot.step);
        slot.step = proposed;
        slot.held_back = !accepted;
        if (!accepted) {
            ++sample.said.rejected;
            return false;
        }
        count(slot, sample, q);
        return true;
    }

    // Keeps accepted steps, before they are taken, as far as there is room.
    void keep(const Array<std::size_t>& accepted) {
        polynomials.clear();
        for (std::size_t s : accepted) {
            const Slot& slot = slots[s];
            Sample& sample = solve.samples[slot.sample];
            if (sample.steps.size() >= solve.given.keep) continue;
            sample.steps.push_back({slot.segment, slot.tau, slot.dt});
            const std::size_t before = sample.states.size();
            sample.states.resize(before + n.width);
            solve.copy_state(stages.state(s), sample.states.data() + before);
            if (solve.makes_nodes()) polynomials.push_back(s);
        }
#if !LANEWISE
        for (std::size_t s : polynomials) {
            const Slot& slot = slots[s];
            Sample& sample = solve.samples[slot.sample];
            sample.nodes.resize(sample.nodes.size() + NODES * n.width);
            if (solve.given.past->blocks) sample.begins.push_back(solve.given.past->starts[solve.at(slot.segment, slot.sample)] + slot.tau);
        }
        if (!polynomials.empty()) stages.interpolate(polynomials);
#endif
    }

    void take(std::size_t s) {
        Slot& slot = slots[s];
        const double length = solve.length(slot.segment, slot.sample);
        stages.accept(s);
        slot.differentiated = false;
        slot.known = solve.method.last_is_next;
        slot.tau = slot.steps == 1 ? length : slot.tau + slot.dt;
        if (slot.tau < length) return;
        solve.write(++slot.segment, slot.sample, stages.state(s));
        solve.land();
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

// A group of samples on their way back: of_hs (wanted, batch, state) -> of_projected (like projected, added to), of_h0.
class Return {
  public:
    Return(const Solve& solve, const real* of_hs, real* of_projected, real* of_h0, std::size_t first, std::size_t end)
        : solve(solve), steps_back(solve, of_projected), n(solve.model), of_hs(of_hs), of_h0(of_h0), next(first), end(end),
          of_h(solve.slots, n.state), starts(solve.slots, n.state), given(n.state), slots(solve.slots) {}

    bool run(double deadline) {
        return by_slots(
            slots, next, end, deadline, [this](std::size_t s, std::size_t sample) { begin(s, sample); },
            [this](Array<std::size_t>& on) { round(on); });
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
    Array<Slot> slots;
    Array<TakenStep> taken;  // of a round

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
            solve.copy_state(of_hs + (std::size_t(place) * solve.given.batch + slot.sample) * n.width, given.data());
            add_to(of_h[s], given.data(), n.state);
        }
        if (slot.left) return;
        solve.copy_state(of_h[s], of_h0 + slot.sample * n.width);
        slot.taken = false;
    }

    void round(const Array<std::size_t>& on) {
        taken.clear();
        for (std::size_t s : on) {
            const Slot& slot = slots[s];
            const Sample& sample = solve.samples[slot.sample];
            const std::size_t last = slot.left - 1;
            solve.copy_state(sample.states.data() + last * n.width, starts[s]);
            taken.push_back({slot.sample, sample.steps[last], starts[s], of_h[s], nullptr, nullptr});
            if (!solve.makes_nodes()) continue;
            taken.back().nodes = sample.nodes.data() + last * NODES * n.width;
            taken.back().of_nodes = solve.of_step(slot.sample, last);
        }
        steps_back.run(taken);
        for (std::size_t s : on) {
            const std::size_t before = --slots[s].left;
            if (const real* more = solve.of_step(slots[s].sample, before)) {
                solve.copy_state(more, given.data());
                add_to(of_h[s], given.data(), n.state);
            }
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
    Array<Owned<Group>> groups;
    Array<char> done;

    template <class Make> Running(const Solve& solve, std::size_t share, Make make) : threads(solve.given.threads) {
        const std::size_t batch = solve.given.batch;
        for (std::size_t first = 0; first < batch; first += share) groups.push_back(make(first, smaller(batch, first + share)));
        done.assign(groups.size(), 0);
    }

    int run(double seconds) override {
        const double deadline = now() + seconds;
        const bool enough = in_parallel(groups.size(), threads, [&](std::size_t i) {
            if (!done[i] && now() < deadline) done[i] = groups[i]->run(deadline);
        });
        if (!enough) return 2;
        for (char each : done)
            if (!each) return 1;
        return 0;
    }

  private:
    std::size_t threads;
};

constexpr std::size_t GROUPS = 8;  // for each thread, so that none is idle for long; and few, for slots are full until the last ones

// Samples of each of so many groups, in full slots.
std::size_t shared_out(std::size_t samples, std::size_t groups) { return SLOTS * ((samples + SLOTS * groups - 1) / (SLOTS * groups)); }

struct Forwards : Solve, Running<SolverState> {
    explicit Forwards(const CtrnnProblem& p)
        : Solve(p), Running(*this, shared_out(p.batch, p.threads * GROUPS), [this](std::size_t first, std::size_t end) {
              return new SolverState(*this, first, end);
          }) {}

    int run(double seconds) override {
        const int state = Running::run(seconds);
        if (state == 0) groups.clear();  // what only the flight needed
        return state;
    }
};

struct Backwards : Running<Return> {
    Backwards(const Solve& solve, const real* of_hs, real* of_projected, real* of_h0)
        : Running(solve, shared_out(solve.given.batch, MOST_GROUPS),
                  [&](std::size_t first, std::size_t end) {
                      return new Return(solve, of_hs, of_projected, of_h0, first, end);
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
    return double(__atomic_load_n(&solve.landed, __ATOMIC_RELAXED)) / (double(solve.given.segments) * double(solve.given.batch));
}

// Of all samples.
EXPORTED void ctrnn_solve_reports(const Task* task, CtrnnReport* to) {
    for (const Sample& sample : solve_of(task).samples) *to++ = sample.said;
}

// Where a sample failed: its state, and the error of its last try where that was rejected; (state,) each.
EXPORTED void ctrnn_solve_failure(const Task* task, std::size_t sample, real* h, real* error) {
    const Solve& solve = solve_of(task);
    const Sample& failed = solve.samples[sample];
    if (!failed.h.empty()) solve.copy_state(failed.h.data(), h);
    if (!failed.error.empty()) solve.copy_state(failed.error.data(), error);
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

// The polynomials of the steps a sample took, (accepted, NODES, state).
EXPORTED void ctrnn_solve_nodes(const Task* task, std::size_t sample, real* to) {
    const Numbers& nodes = solve_of(task).samples[sample].nodes;
    if (!nodes.empty()) std::memcpy(to, nodes.data(), nodes.size() * sizeof(real));
}

// The weights' gradients, of each program of the model. Once, when the way back is done.
EXPORTED void ctrnn_return_sums(Task* way, const CtrnnSums* to) {
    auto& groups = static_cast<Backwards*>(way)->groups;
    for (std::size_t i = 1; i < groups.size(); ++i) groups[0]->steps_back.add(groups[i]->steps_back);
    groups[0]->steps_back.write(to);
}

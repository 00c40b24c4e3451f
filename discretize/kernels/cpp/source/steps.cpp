// A step map of any field over a whole sequence, and back: the step is written out, in a library of its own.
//
// One thread takes some of the samples through all times; where dt is 0 a sample rests. Gradients of
// weights are sums over samples and steps, summed for every group of samples over a few steps at a time, and over the groups at
// the end: groups are made by the size of the batch alone, so the sums have the same bits with any number of threads.

#include "written_model.h"

namespace {

constexpr std::size_t MOST_GROUPS = 16;  // of samples with sums of their own
constexpr std::size_t TOGETHER = 128;    // rows that are summed into the weights' gradient at a time
constexpr std::size_t LARGE = 1 << 20;   // bytes: weights that are too far away to be fetched for a few rows only

}  // namespace

extern "C" {

// What the caller gives: x (time, batch, inputs), h0 (batch, state), dt by its strides. `counted`: 1 + the number of x in whose
// place a step reads that of the substep, 0 for none.
struct CtrnnSequence {
    std::size_t time, batch, inputs, state, substeps, threads, rests, counted;
    const real *x, *h0, *dt;
    std::size_t dt_time, dt_batch;
    const CtrnnProgram* program;
};

// Where gradients go: of x (time substeps, batch, inputs) and dt (time substeps, batch), or null, and h0.
struct CtrnnGradients {
    const real* of_hs;
    real *x, *h0, *dt;
    const CtrnnSums* sums;
};
}

namespace {

struct Run {
    const CtrnnSequence& given;
    const Owned<Model> flow;  // of equations that a step solves
    Shared shared;
    const std::size_t steps, kept;

    Run(const CtrnnSequence& p, bool back)
        : given(p), flow(p.program->flow ? new Model(*p.program->flow) : nullptr),
          shared(*p.program, padded(p.state), !back, back), steps(p.time * p.substeps), kept(shared.total) {
        if (flow) shared.flow = &*flow;
    }

    real length(std::size_t step, std::size_t sample) const {
        return given.dt[step / given.substeps * given.dt_time + sample * given.dt_batch] / real(given.substeps);
    }
    void read(std::size_t step, std::size_t sample, real* to) const {
        copy(given.x + (step / given.substeps * given.batch + sample) * given.inputs, to, given.inputs);
        if (given.counted) to[given.counted - 1] = real(step % given.substeps);
    }
    // What is kept of a step: the state before it, and what the program keeps.
    std::size_t place(std::size_t step, std::size_t sample) const { return (step * given.batch + sample) * kept; }
    // Of a step that comes next on the way back: processors foresee ways forwards only.
    void fetch(std::size_t step, std::size_t first, std::size_t rows, const real* from, const real* of_hs) const {
        fetch(from + place(step, first), rows * kept);
        if ((step + 1) % given.substeps == 0)
            fetch(of_hs + (step / given.substeps * given.batch + first) * given.state, rows * given.state);
    }
    bool unsolved() const { return __atomic_load_n(&shared.unsolved, __ATOMIC_RELAXED); }
    bool rests(real dt) const { return given.rests && dt == 0; }

  private:
    static void fetch(const real* from, std::size_t n) {
        for (std::size_t i = 0; i < n; i += 64 / sizeof(real)) __builtin_prefetch(from + i);
        asm volatile("");  // gcc drops calls of functions that do nothing else
    }
};

// Rows on their way in a step: which they are, and what they read and write.
struct Live {
    std::size_t rows = 0;
    Array<std::size_t> which;
    Array<real> dt;
    Array<real*> x, h, kept, next;

    explicit Live(std::size_t most) : which(most), dt(most), x(most), h(most), kept(most), next(most) {}

    void add(std::size_t m, real length, real* at_x, real* at_h, real* keep, real* to) {
        which[rows] = m, dt[rows] = length, x[rows] = at_x, h[rows] = at_h, kept[rows] = keep, next[rows] = to;
        ++rows;
    }
};

// A state is computed into where it is kept for the way back.
void forwards(const Run& run, std::size_t first, std::size_t rows, real* hs, real* kept) {
    const CtrnnSequence& p = run.given;
    Rows x(rows, roomy(p.inputs)), one(rows, roomy(p.state)), other(rows, roomy(p.state)), scratch(kept ? 0 : rows, run.kept);
    const auto step_of = forward_of(run.shared, rows);
    const auto place = [&](std::size_t step, std::size_t m) {
        return kept && step < run.steps ? kept + run.place(step, first + m) : step % 2 ? other[m] : one[m];
    };
    Live live(rows);
    for (std::size_t m = 0; m < rows; ++m) widen(p.h0 + (first + m) * p.state, place(0, m), p.state);
    for (std::size_t step = 0; step < run.steps; ++step) {
        live.rows = 0;
        for (std::size_t m = 0; m < rows; ++m) {
            const real dt = run.length(step, first + m);
            real *h = place(step, m), *next = place(step + 1, m);
            if (run.rests(dt)) {
                copy(h, next, p.state);
                continue;
            }
            run.read(step, first + m, x[m]);
            live.add(m, dt, x[m], h, kept ? h : scratch[m], next);
        }
        step_of->run(live.rows, live.x.data(), live.h.data(), live.dt.data(), live.kept.data(), live.next.data());
        if (run.unsolved()) return;
        if ((step + 1) % p.substeps) continue;
        real* to = hs + (step / p.substeps * p.batch + first) * p.state;
        for (std::size_t m = 0; m < rows; ++m) copy(place(step + 1, m), to + m * p.state, p.state);
    }
}

// Some samples of a group all the way back.
void backwards(const Run& run, const real* kept, const CtrnnGradients& to, Backward& step_of, std::size_t together,
               std::size_t first, std::size_t rows) {
    const CtrnnSequence& p = run.given;
    Rows x(rows, roomy(p.inputs)), of_h(rows, roomy(p.state)), to_h(rows, roomy(p.state)), to_x(rows, roomy(p.inputs));
    Live live(rows);
    Array<real*> cotangent(rows), at_x(rows);
    Array<real> to_dt(rows);
    std::size_t waiting = 0;  // rows that are yet to be summed
    for (std::size_t step = run.steps; step-- > 0;) {
        live.rows = 0;
        for (std::size_t m = 0; m < rows; ++m) {
            if ((step + 1) % p.substeps == 0) {
                const real* given = to.of_hs + (step / p.substeps * p.batch + first + m) * p.state;
                for (std::size_t i = 0; i < p.state; i += LANES)
                    store(of_h[m] + i, load(of_h[m] + i) + load(given + i, p.state - i));
            }
            const real dt = run.length(step, first + m);
            if (run.rests(dt)) {
                if (to.x) fill(to.x + (step * p.batch + first + m) * p.inputs, p.inputs, real(0));
                continue;
            }
            real* keep = const_cast<real*>(kept) + run.place(step, first + m);
            run.read(step, first + m, x[m]);
            cotangent[live.rows] = of_h[m], at_x[live.rows] = to_x[m];
            live.add(m, dt, x[m], keep, keep, to_h[m]);
        }
        if (step) run.fetch(step - 1, first, rows, kept, to.of_hs);
        step_of.run(live.rows, waiting, live.x.data(), live.h.data(), live.dt.data(), live.kept.data(), cotangent.data(),
                    live.next.data(), at_x.data(), to_dt.data());
        for (std::size_t i = 0; i < live.rows; ++i) {
            const std::size_t m = live.which[i], row = step * p.batch + first + m;
            swap_values(of_h.at[m], to_h.at[m]);
            if (to.x) copy(to_x[m], to.x + row * p.inputs, p.inputs);
            if (to.dt) to.dt[row] = to_dt[i] / real(p.substeps);
        }
        waiting += live.rows;
        if (waiting + rows > together || step == 0) {
            step_of.sum_up(waiting);
            waiting = 0;
        }
    }
    for (std::size_t m = 0; m < rows; ++m) copy(of_h[m], to.h0 + (first + m) * p.state, p.state);
}

// The runs of all networks, their weights laid out.
struct Networks {
    Array<Owned<Run>> runs;
    bool enough;

    Networks(const CtrnnSequence* p, std::size_t networks, bool back) : runs(networks) {
        enough = in_parallel(networks, p->threads, [&](std::size_t k) { runs[k] = new Run(p[k], back); });
    }
    const Run& operator[](std::size_t k) const { return *runs[k]; }
    bool unsolved() const {
        for (const Owned<Run>& run : runs)
            if (run->unsolved()) return true;
        return false;
    }
    std::size_t kept() const { return runs[0]->steps * runs[0]->given.batch * runs[0]->kept; }  // of one network
};

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// How many numbers of a step and a sample `kept` has to hold.
EXPORTED std::size_t ctrnn_steps_kept(const CtrnnSequence* p) {
    std::size_t kept = padded(p->state) + LANES;
    for (std::size_t k = 0; k < p->program->kept_values; ++k) kept += padded(p->program->kept_widths[k]);
    return kept;
}

// Of every network, p[k] the k-th of so many -> hs (time, batch, state), kept (time substeps, batch, ...) or null. Sizes and
// threads are those of the first. Returns 0, 1 where memory ran out, or 2 where an equation of a step was not solved.
EXPORTED int ctrnn_steps_forwards(const CtrnnSequence* p, std::size_t networks, real* hs, real* kept) {
    try {
        const Networks runs(p, networks, false);
        if (!runs.enough) return 1;
        const std::size_t batch = p->batch, threads = p->threads, states = p->time * batch * p->state, keep = runs.kept();
        std::size_t rows = smaller((networks * batch + threads - 1) / threads, batch);
        rows = smaller((rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS, MOST_ROWS);
        const std::size_t parts = (batch + rows - 1) / rows;
        const bool enough = in_parallel(networks * parts, threads, [&](std::size_t item) {
            const std::size_t k = item / parts, first = item % parts * rows;
            forwards(runs[k], first, smaller(rows, batch - first), hs + k * states, kept ? kept + k * keep : nullptr);
        });
        return !enough ? 1 : runs.unsolved() ? 2 : 0;
    } catch (const std::bad_alloc&) {
        return 1;
    }
}

// With what `forwards` kept -> the gradients, to[k] those of network k. Returns likewise.
EXPORTED int ctrnn_steps_backwards(const CtrnnSequence* p, std::size_t networks, const real* kept, const CtrnnGradients* to) {
    try {
        const Networks runs(p, networks, true);
        if (!runs.enough) return 1;
        const std::size_t batch = p->batch, threads = p->threads, keep = runs.kept();
        std::size_t share = 8 * ((batch + 8 * MOST_GROUPS - 1) / (8 * MOST_GROUPS)), weights = 0;
        for (const Product& product : runs[0].shared.products) weights += product.values.size() * sizeof(real);
        if (weights > LARGE) share = larger(share, batch < 64 ? 16 : 32);
        const std::size_t groups = (batch + share - 1) / share, most = smaller(MOST_ROWS, share);
        const std::size_t together = larger(1, TOGETHER / most) * most;
        Array<SumsSoFar> done(networks * groups);
        const bool summed = in_parallel(networks * groups, threads, [&](std::size_t item) {
            const std::size_t k = item / groups, group = item % groups, end = smaller(batch, (group + 1) * share);
            auto step_of = backward_of(runs[k].shared, most, together / most);
            for (std::size_t first = group * share; first < end; first += most)
                backwards(runs[k], kept + k * keep, to[k], *step_of, together, first, smaller(most, end - first));
            done[item] = static_cast<SumsSoFar&&>(*step_of);  // and no room of the pass
        });
        return !(summed && in_parallel(networks, threads, [&](std::size_t k) {
            SumsSoFar& total = done[k * groups];
            for (std::size_t group = 1; group < groups; ++group)
                for (std::size_t i = 0; i < total.areas.size(); ++i)
                    add_to(total.areas[i].data(), done[k * groups + group].areas[i].data(), total.areas[i].size());
            to[k].sums->write(total);
        }));
    } catch (const std::bad_alloc&) {
        return 1;
    }
}

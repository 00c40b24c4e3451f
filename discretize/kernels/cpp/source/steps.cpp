// A step map of any field over a whole sequence, and back: the step is written out, in a library of its own.
//
// As kernels/cells.cpp: one thread takes some of the samples through all times; where dt is 0 a sample rests. Gradients of
// weights are sums over samples and steps, summed for every group of samples over a few steps at a time, and over the groups at
// the end: groups are made by the size of the batch alone, so the sums have the same bits with any number of threads.

#include <memory>

#include "driver.h"
#include "parallel.h"

namespace {

constexpr std::size_t MOST_GROUPS = 16;  // of samples with sums of their own
constexpr std::size_t TOGETHER = 128;    // rows that are summed into the weights' gradient at a time
constexpr std::size_t LARGE = 1 << 20;   // bytes: weights that are too far away to be fetched for a few rows only

}  // namespace

extern "C" {

// What the caller gives: x (time, batch, inputs), h0 (batch, state), dt by its strides.
struct CtrnnSequence {
    std::size_t time, batch, inputs, state, substeps, threads, rests;
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
    const Shared shared;
    const std::size_t steps, kept;

    explicit Run(const CtrnnSequence& p)
        : given(p), shared(*p.program, padded(p.state)), steps(p.time * p.substeps), kept(shared.total) {}

    real length(std::size_t step, std::size_t sample) const {
        return given.dt[step / given.substeps * given.dt_time + sample * given.dt_batch] / real(given.substeps);
    }
    void read(std::size_t step, std::size_t sample, real* to) const {
        const real* from = given.x + (step / given.substeps * given.batch + sample) * given.inputs;
        std::memcpy(to, from, given.inputs * sizeof(real));
    }
};

// Rows on their way in a step: what they read and write, and which they are.
struct Live {
    std::vector<real*> x, h, kept;
    std::vector<real> dt;
    std::vector<std::size_t> rows;

    void clear() {
        for (auto part : {&x, &h, &kept}) part->clear();
        dt.clear();
        rows.clear();
    }

    // Row m, whose sample is read and whose state lies in `keep` or goes there.
    void add(std::size_t m, real length, real* at_x, real* at_h, real* keep) {
        rows.push_back(m);
        dt.push_back(length);
        x.push_back(at_x);
        h.push_back(at_h);
        kept.push_back(keep);
    }
};

void forwards(const Run& run, std::size_t first, std::size_t rows, real* hs, real* kept) {
    const CtrnnSequence& p = run.given;
    Rows h(rows, roomy(p.state)), x(rows, roomy(p.inputs)), next(rows, roomy(p.state));
    Rows scratch(kept ? 0 : rows, run.kept);
    const auto step_of = forward_of(run.shared, rows);
    Live live;
    std::vector<real*> after;
    for (std::size_t m = 0; m < rows; ++m) std::memcpy(h[m], p.h0 + (first + m) * p.state, p.state * sizeof(real));
    for (std::size_t step = 0; step < run.steps; ++step) {
        live.clear();
        after.clear();
        for (std::size_t m = 0; m < rows; ++m) {
            const real dt = run.length(step, first + m);
            if (p.rests && dt == 0) continue;
            real* keep = kept ? kept + (step * p.batch + first + m) * run.kept : scratch[m];
            std::memcpy(keep, h[m], p.state * sizeof(real));
            run.read(step, first + m, x[m]);
            live.add(m, dt, x[m], h[m], keep);
            after.push_back(next[m]);
        }
        step_of->run(live.rows.size(), live.x.data(), live.h.data(), live.dt.data(), live.kept.data(), after.data());
        for (std::size_t m : live.rows) std::swap(h.at[m], next.at[m]);
        if ((step + 1) % p.substeps) continue;
        real* to = hs + (step / p.substeps * p.batch + first) * p.state;
        for (std::size_t m = 0; m < rows; ++m) std::memcpy(to + m * p.state, h[m], p.state * sizeof(real));
    }
}

// Some samples of a group all the way back.
void backwards(const Run& run, const real* kept, const CtrnnGradients& to, Backward& step_of, std::size_t together,
               std::size_t first, std::size_t rows) {
    const CtrnnSequence& p = run.given;
    Rows h(rows, roomy(p.state)), x(rows, roomy(p.inputs)), of_h(rows, roomy(p.state));
    Rows to_h(rows, roomy(p.state)), to_x(rows, roomy(p.inputs));
    Live live;
    std::vector<real*> cotangent, at_h, at_x;
    std::vector<real> to_dt(rows);
    std::size_t waiting = 0;  // rows that are yet to be summed
    for (std::size_t step = run.steps; step-- > 0;) {
        live.clear();
        for (auto part : {&cotangent, &at_h, &at_x}) part->clear();
        for (std::size_t m = 0; m < rows; ++m) {
            const std::size_t row = step * p.batch + first + m;
            if ((step + 1) % p.substeps == 0) {
                const real* given = to.of_hs + (step / p.substeps * p.batch + first + m) * p.state;
                for (std::size_t i = 0; i < p.state; i += LANES)
                    store(of_h[m] + i, load(of_h[m] + i) + load(given + i, p.state - i));
            }
            const real dt = run.length(step, first + m);
            if (p.rests && dt == 0) {
                if (to.x) std::fill_n(to.x + row * p.inputs, p.inputs, real(0));
                continue;
            }
            real* keep = const_cast<real*>(kept) + row * run.kept;
            std::memcpy(h[m], keep, p.state * sizeof(real));
            run.read(step, first + m, x[m]);
            live.add(m, dt, x[m], h[m], keep);
            cotangent.push_back(of_h[m]);
            at_h.push_back(to_h[m]);
            at_x.push_back(to_x[m]);
        }
        const std::size_t on = live.rows.size();
        step_of.run(on, waiting, live.x.data(), live.h.data(), live.dt.data(), live.kept.data(), cotangent.data(), at_h.data(),
                    at_x.data(), to_dt.data());
        for (std::size_t i = 0; i < on; ++i) {
            const std::size_t m = live.rows[i], row = step * p.batch + first + m;
            std::swap(of_h.at[m], to_h.at[m]);
            if (to.x) std::memcpy(to.x + row * p.inputs, to_x[m], p.inputs * sizeof(real));
            if (to.dt) to.dt[row] = to_dt[i] / real(p.substeps);
        }
        waiting += on;
        if (waiting + rows > together || step == 0) {
            step_of.sum_up(waiting);
            waiting = 0;
        }
    }
    for (std::size_t m = 0; m < rows; ++m) std::memcpy(to.h0 + (first + m) * p.state, of_h[m], p.state * sizeof(real));
}

// The runs of all networks, their weights laid out.
struct Networks {
    std::vector<std::unique_ptr<Run>> runs;
    bool enough;

    Networks(const CtrnnSequence* p, std::size_t networks) : runs(networks) {
        enough = in_parallel(networks, p->threads, [&](std::size_t k) { runs[k] = std::make_unique<Run>(p[k]); });
    }
    const Run& operator[](std::size_t k) const { return *runs[k]; }
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
// threads are those of the first. Returns 0, or 1 where memory ran out.
EXPORTED int ctrnn_steps_forwards(const CtrnnSequence* p, std::size_t networks, real* hs, real* kept) {
    try {
        const Networks runs(p, networks);
        if (!runs.enough) return 1;
        const std::size_t batch = p->batch, threads = p->threads, states = p->time * batch * p->state, keep = runs.kept();
        in_large_pages(hs, networks * states * sizeof(real));
        in_large_pages(kept, kept ? networks * keep * sizeof(real) : 0);
        std::size_t rows = std::min((networks * batch + threads - 1) / threads, batch);
        rows = std::min((rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS, MOST_ROWS);
        const std::size_t parts = (batch + rows - 1) / rows;
        return !in_parallel(networks * parts, threads, [&](std::size_t item) {
            const std::size_t k = item / parts, first = item % parts * rows;
            forwards(runs[k], first, std::min(rows, batch - first), hs + k * states, kept ? kept + k * keep : nullptr);
        });
    } catch (const std::bad_alloc&) {
        return 1;
    }
}

// With what `forwards` kept -> the gradients, to[k] those of network k. Returns likewise.
EXPORTED int ctrnn_steps_backwards(const CtrnnSequence* p, std::size_t networks, const real* kept, const CtrnnGradients* to) {
    try {
        const Networks runs(p, networks);
        if (!runs.enough) return 1;
        const std::size_t batch = p->batch, threads = p->threads, keep = runs.kept();
        std::size_t share = 8 * ((batch + 8 * MOST_GROUPS - 1) / (8 * MOST_GROUPS)), weights = 0;
        for (const Packed& matrix : runs[0].shared.matrices) weights += matrix.width * matrix.depth * sizeof(real);
        if (weights > LARGE) share = std::max<std::size_t>(share, batch < 64 ? 16 : 32);
        const std::size_t groups = (batch + share - 1) / share, most = std::min(MOST_ROWS, share);
        const std::size_t together = std::max<std::size_t>(1, TOGETHER / most) * most;
        std::vector<std::vector<Numbers>> sums(networks * groups);
        const bool summed = in_parallel(networks * groups, threads, [&](std::size_t item) {
            const std::size_t k = item / groups, group = item % groups, end = std::min(batch, (group + 1) * share);
            const auto step_of = backward_of(runs[k].shared, most, together / most);
            for (std::size_t first = group * share; first < end; first += most)
                backwards(runs[k], kept + k * keep, to[k], *step_of, together, first, std::min(most, end - first));
            sums[item] = std::move(step_of->sums);
        });
        return !(summed && in_parallel(networks, threads, [&](std::size_t k) {
            std::vector<Numbers>& total = sums[k * groups];
            for (std::size_t group = 1; group < groups; ++group)
                for (std::size_t i = 0; i < total.size(); ++i)
                    add_to(total[i].data(), sums[k * groups + group][i].data(), total[i].size());
            to[k].sums->write(total);
        }));
    } catch (const std::bad_alloc&) {
        return 1;
    }
}

// A step map of any field over a whole sequence, and back: the step is written out in program.h.
//
// As kernels/cells.cpp: one thread takes some of the samples through all times; where dt is 0 a sample rests. Gradients of
// weights are sums over samples and steps, summed for every group of samples over a few steps at a time, and over the groups at
// the end: groups are made by the size of the batch alone, so the sums have the same bits with any number of threads.

#include <memory>

#include "program.h"

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
    Forward step_of(run.shared, rows);
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
        step_of.run(live.rows.size(), live.x.data(), live.h.data(), live.dt.data(), live.kept.data(), after.data());
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

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// How many numbers of a step and a sample `kept` has to hold.
EXPORTED std::size_t ctrnn_steps_kept(const CtrnnSequence* p) {
    std::size_t kept = padded(p->state) + LANES;
    for (std::size_t k = 0; k < p->program->kept_values; ++k) kept += padded(p->program->kept_widths[k]);
    return kept;
}

// -> hs (time, batch, state), kept (time substeps, batch, ...) or null. Returns 0, or 1 where memory ran out.
EXPORTED int ctrnn_steps_forwards(const CtrnnSequence* p, real* hs, real* kept) {
    try {
        const Run run(*p);
        in_large_pages(hs, p->time * p->batch * p->state * sizeof(real));
        in_large_pages(kept, kept ? run.steps * p->batch * run.kept * sizeof(real) : 0);
        std::size_t rows = (p->batch + p->threads - 1) / p->threads;
        rows = std::min((rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS, MOST_ROWS);
        return !in_parallel((p->batch + rows - 1) / rows, p->threads, [&](std::size_t item) {
            forwards(run, item * rows, std::min(rows, p->batch - item * rows), hs, kept);
        });
    } catch (const std::bad_alloc&) {
        return 1;
    }
}

// With what `forwards` kept -> the gradients. Returns likewise.
EXPORTED int ctrnn_steps_backwards(const CtrnnSequence* p, const real* kept, const CtrnnGradients* to) {
    try {
        const Run run(*p);
        std::size_t share = 8 * ((p->batch + 8 * MOST_GROUPS - 1) / (8 * MOST_GROUPS)), weights = 0;
        for (const Packed& matrix : run.shared.matrices) weights += matrix.width * matrix.depth * sizeof(real);
        if (weights > LARGE) share = std::max<std::size_t>(share, p->batch < 64 ? 16 : 32);
        const std::size_t groups = (p->batch + share - 1) / share, most = std::min(MOST_ROWS, share);
        const std::size_t together = std::max<std::size_t>(1, TOGETHER / most) * most;
        std::vector<std::vector<Numbers>> sums(groups);
        const bool enough = in_parallel(groups, p->threads, [&](std::size_t group) {
            Backward step_of(run.shared, most, together / most);
            const std::size_t end = std::min(p->batch, (group + 1) * share);
            for (std::size_t first = group * share; first < end; first += most)
                backwards(run, kept, *to, step_of, together, first, std::min(most, end - first));
            sums[group] = std::move(step_of.sums);
        });
        if (!enough) return 1;
        for (std::size_t group = 1; group < groups; ++group)
            for (std::size_t k = 0; k < sums[0].size(); ++k)
                add_to(sums[0][k].data(), sums[group][k].data(), sums[0][k].size());
        to->sums->write(sums[0]);
        return 0;
    } catch (const std::bad_alloc&) {
        return 1;
    }
}

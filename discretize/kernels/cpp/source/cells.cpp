// A discrete cell over a whole sequence, and back: h <- h + dt F (STEP 0), h <- h + dt phi_1(-L dt) F (STEP 1).
//
// One thread takes some of the samples through all times, from the samples x on: no projection of the sequence is ever
// written down, nor the cotangent of one. Where dt is 0 a sample rests, and costs nothing. Gradients of the weights are summed for every group of samples over a few steps at
// a time, and over the groups at the end: groups are made by the size of the batch alone, so the sums have the same bits
// with any number of threads.

#include <memory>

#include "field.h"
#include "parallel.h"
#include "scratch.h"

static_assert(LEAK == STEP, "the exponential step, and it alone, asks for the leak");

namespace {

constexpr std::size_t MOST_ROWS = 64;    // at a time: beyond, their products leave the nearer caches
constexpr std::size_t MOST_GROUPS = 16;  // of samples with sums of their own
constexpr std::size_t TOGETHER = 128;    // rows that are summed into the weights' gradient at a time
constexpr std::size_t LARGE = 1 << 20;   // bytes: weights that are too far away to be fetched for a few rows only

struct Run {
    std::size_t time, batch, substeps, steps;
    const real *x, *h0, *dt;
    std::size_t dt_time, dt_batch;

    real length(std::size_t step, std::size_t sample) const {
        return dt[step / substeps * dt_time + sample * dt_batch] / real(substeps);
    }
    const real* sample(const Sizes& n, std::size_t step, std::size_t sample) const {
        return x + (step / substeps * batch + sample) * n.inputs;
    }
};

// [x, 1] into the row that a product reads
inline void read_sample(const Sizes& n, const real* x, real* row) {
    std::memcpy(row + n.units, x, n.inputs * sizeof(real));
    row[n.units + n.inputs] = 1;
}

// What is kept of a step: what the derivative of the field needs, and the state before.
inline std::size_t kept_of_a_step(const Sizes& n) { return n.kept + n.state; }

// What multiplies the slope: dt, or dt phi_1(-L dt).
inline vec share_of_slope(vec leak, real dt) { return STEP ? dt * mean_decay(leak * dt) : splat(dt); }

// Rows on their way in a step: where a product reads and where it writes, for each of them.
struct Live {
    std::vector<const real*> h, x;
    std::vector<real*> a, pulled, gate;
    std::vector<std::size_t> rows;

    void clear() {
        for (auto part : {&h, &x}) part->clear();
        for (auto part : {&a, &pulled, &gate}) part->clear();
        rows.clear();
    }
};

void forwards(const Weights& w, const Run& run, std::size_t first, std::size_t rows, bool rest, real* hs, real* kept) {
    const Sizes& n = w.n;
    Rows read(rows, n.units), x(rows, n.inputs), a(rows, n.product), cell(rows, IS_LSTM ? n.state : 0), pulled(rows, IS_RESET ? n.units : 0);
    Numbers slope(n.state), leak(n.state), scratch(kept ? 0 : kept_of_a_step(n));
    Live live;
    for (std::size_t m = 0; m < rows; ++m) {
        widen_state(n, run.h0 + (first + m) * n.width, IS_LSTM ? cell[m] : read[m]);
        if (IS_LSTM) std::memcpy(read[m], cell[m], n.units * sizeof(real));
    }
    for (std::size_t step = 0; step < run.steps; ++step) {
        live.clear();
        for (std::size_t m = 0; m < rows; ++m) {
            if (rest && run.length(step, first + m) == 0) continue;
            live.rows.push_back(m);
            live.h.push_back(read[m]);
            live.x.push_back(x[m]);
            std::memcpy(x[m], run.sample(n, step, first + m), n.inputs * sizeof(real));  // near, where many tiles read it
            live.a.push_back(a[m]);
            std::memcpy(a[m], w.start.data(), n.product * sizeof(real));
            if (IS_RESET) {
                live.pulled.push_back(pulled[m]);
                live.gate.push_back(a[m] + 2 * n.units);
                std::memcpy(pulled[m], w.start.data() + n.product, n.units * sizeof(real));
            }
        }
        multiply(live.rows.size(), w.projected, live.x.data(), live.a.data());
        if (IS_RESET) {
            multiply(live.rows.size(), w.pulled, live.x.data(), live.pulled.data());
            multiply(live.rows.size(), w.to_gate, live.x.data(), live.gate.data());
        }
        multiply(live.rows.size(), w.forwards, live.h.data(), live.a.data());
        for (std::size_t m : live.rows) {
            std::size_t row = step * run.batch + first + m;
            real* h = IS_LSTM ? cell[m] : read[m];
            real* keep = kept ? kept + row * kept_of_a_step(n) : scratch.data();
            std::memcpy(keep + n.kept, h, n.state * sizeof(real));
            flow(w, a[m], IS_RESET ? pulled[m] : nullptr, h, keep, slope.data(), leak.data());
            const real dt = run.length(step, first + m);
            for (std::size_t i = 0; i < n.state; i += LANES)
                store(h + i, load(h + i) + share_of_slope(load(leak.data() + i), dt) * load(slope.data() + i));
            if (IS_LSTM) std::memcpy(read[m], h, n.units * sizeof(real));
        }
        if ((step + 1) % run.substeps) continue;
        for (std::size_t m = 0; m < rows; ++m)
            narrow_state(n, IS_LSTM ? cell[m] : read[m], hs + (step / run.substeps * run.batch + first + m) * n.width);
    }
}

// Where gradients go: as the caller has them.
struct Gradients {
    real *x, *w_x, *bias, *w, *bias_h, *rates, *h0, *dt;
};

// The gradients to Wx and b besides; that of b_h stands where W h meets the 1 that is read.
void write(const Weights& w, const Sums& sums, const Gradients& to) {
    const Sizes& n = w.n;
    const std::size_t one = n.inputs;
    sums.write(w, to.w, nullptr, to.rates);
    for (std::size_t place = 0; place < n.product; ++place) {
        const std::size_t column = w.places[place];
        if (column >= n.columns) continue;
        const bool inside = IS_RESET && place >= n.units && place < 2 * n.units;
        const real* row = sums.weights.data() + place * n.read + n.units;
        const real* of_x = inside ? sums.pulled.data() + (place - n.units) * (n.read - n.units) : row;
        std::memcpy(to.w_x + column * n.inputs, of_x, n.inputs * sizeof(real));
        if (to.bias) to.bias[column] = of_x[one];
        if (inside && to.bias_h) to.bias_h[place - n.units] = row[one];
    }
}

// The way back of some samples of a group.
class Backwards {
  public:
    Backwards(const Weights& w, const Run& run, const real* kept, const real* of_hs, const Gradients& to, Sums& sums,
              std::size_t first, std::size_t rows)
        : w(w), n(w.n), run(run), kept(kept), of_hs(of_hs), to(to), sums(sums), first(first), rows(rows),
          together(std::max<std::size_t>(1, TOGETHER / rows)), of_h(rows, n.state), read(together * rows, n.read),
          da(together * rows, n.product), pull(together * rows, IS_RESET ? n.units : 0),
          of_x(rows, to.x ? n.read - n.units : 0), given(n.state), of_slope(n.state), of_leak(n.state),
          slope(n.state), leak(n.state), rest(!to.dt), to_h(rows), live(rows) {}

    void go() {
        std::size_t waiting = 0;  // rows of da, read and pull that are yet to be summed
        for (std::size_t step = run.steps; step-- > 0;) {
            std::size_t on = 0;
            for (std::size_t m = 0; m < rows; ++m) {
                receive(step, m);
                if (rest && run.length(step, first + m) == 0) {
                    if (to.x) std::fill_n(to.x + (step * run.batch + first + m) * n.inputs, n.inputs, real(0));
                    continue;
                }
                one(step, m, waiting + on);
                to_h[on] = of_h[m];
                live[on++] = m;
            }
            multiply(on, w.backwards, da.at.data() + waiting, to_h.data());
            if (to.x) inwards(step, waiting, on);
            waiting += on;
            if (waiting + rows > together * rows || step == 0) {
                sum_up(waiting);
                waiting = 0;
            }
        }
        for (std::size_t m = 0; m < rows; ++m) narrow_state(n, of_h[m], to.h0 + (first + m) * n.width);
    }

  private:
    const Weights& w;
    const Sizes& n;
    const Run& run;
    const real *kept, *of_hs;
    const Gradients& to;
    Sums& sums;
    const std::size_t first, rows, together;
    Rows of_h, read, da, pull, of_x;
    Outer outer;
    Numbers given, of_slope, of_leak, slope, leak;
    const bool rest;                // what `forwards` left out has nothing to be differentiated
    std::vector<real*> to_h;        // of the rows that are on their way
    std::vector<std::size_t> live;  // these

    // What comes from outside to the state after a step of sample m.
    void receive(std::size_t step, std::size_t m) {
        if ((step + 1) % run.substeps) return;
        widen_state(n, of_hs + (step / run.substeps * run.batch + first + m) * n.width, given.data());
        add_to(of_h[m], given.data(), n.state);
    }

    // Back through the step of sample m, as far as the product.
    void one(std::size_t step, std::size_t m, std::size_t place) {
        const std::size_t sample = first + m, row = step * run.batch + sample;
        const real *keep = kept + row * kept_of_a_step(n), *h = keep + n.kept;
        std::memcpy(read[place], h, n.units * sizeof(real));
        read_sample(n, run.sample(n, step, sample), read[place]);
        const real dt = run.length(step, sample);
        if (STEP || to.dt) recall(w, keep, h, slope.data(), leak.data());
        vec of_dt = {};
        for (std::size_t i = 0; i < n.state; i += LANES) {
            vec of = load(of_h[m] + i);
            if (STEP) {
                vec z = load(leak.data() + i) * dt, mean = mean_decay(z), of_share = of * load(slope.data() + i);
                store(of_slope.data() + i, of * mean * dt);
                store(of_leak.data() + i, of_share * mean_decay_slope(z, mean) * dt * dt);
                if (to.dt) of_dt += of_share * exponential(-z);
            } else {
                store(of_slope.data() + i, of * dt);
                if (to.dt) of_dt += of * load(slope.data() + i);
            }
        }
        if (to.dt) to.dt[row] = sum(of_dt) / real(run.substeps);
        flow_vjp(w, keep, h, of_slope.data(), of_leak.data(), da[place], IS_RESET ? pull[place] : nullptr, of_h[m],
                 sums.rates.data());
    }

    // To x: what is pulled there is not what the reset multiplies.
    void inwards(std::size_t step, std::size_t place, std::size_t on) {
        for (std::size_t i = 0; i < on; ++i) {
            std::memset(of_x[i], 0, (n.read - n.units) * sizeof(real));
            if (IS_RESET) swap_sections(da[place + i] + n.units, pull[place + i]);
        }
        multiply(on, w.inwards, da.at.data() + place, of_x.at.data());
        for (std::size_t i = 0; i < on; ++i) {
            real* x = to.x + (step * run.batch + first + live[i]) * n.inputs;
            std::memcpy(x, of_x[i], n.inputs * sizeof(real));
            if (IS_RESET) swap_sections(da[place + i] + n.units, pull[place + i]);
        }
    }

    void swap_sections(real* one, real* other) { std::swap_ranges(one, one + n.units, other); }

    void sum_up(std::size_t depth) {
        outer.add(depth, n.product, n.read, da[0], da.stride, read[0], read.stride, sums.weights.data(), n.read);
        if (IS_RESET)
            outer.add(depth, n.units, n.read - n.units, pull[0], pull.stride, read[0] + n.units, read.stride,
                      sums.pulled.data(), n.read - n.units);
    }
};

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// How many numbers of a step and a sample `kept` has to hold.
EXPORTED std::size_t ctrnn_cells_kept(std::size_t hidden) { return kept_of_a_step(Sizes(hidden)); }

namespace {

// The numbers of network k, where those of all stand one after another; null where there are none.
template <class Number> inline Number* of_network(Number* given, std::size_t k, std::size_t size) {
    return given ? given + k * size : nullptr;
}

using Networks = std::vector<std::unique_ptr<Weights>>;

}  // namespace

// Of every network: x (time, batch, inputs), x_network numbers after that of the one before, h0 (batch, state), w_x (columns,
// inputs), bias (columns,) or null, w (columns, hidden), bias_h and rates (hidden,) or null, dt by strides; rest: samples whose
// dt is 0 are left out, and so is what is kept of them -> hs (time, batch, state), kept (time substeps, batch, ...) or null.
// Returns 0, or 1 where memory ran out.
EXPORTED int ctrnn_cells_forwards(std::size_t networks, std::size_t time, std::size_t batch, std::size_t inputs,
                                  std::size_t hidden, std::size_t substeps, const real* x, std::size_t x_network,
                                  const real* h0, const real* w_x, const real* bias, const real* w, const real* bias_h,
                                  const real* rates, double exponent, const real* dt, std::size_t dt_network,
                                  std::size_t dt_time, std::size_t dt_batch, std::size_t threads, std::size_t rest, real* hs,
                                  real* kept) {
    try {
        const Sizes n(hidden, inputs);
        const std::size_t steps = time * substeps, state = batch * n.width, keep = steps * batch * kept_of_a_step(n);
        in_large_pages(hs, networks * time * state * sizeof(real));
        in_large_pages(kept, networks * keep * sizeof(real));
        Networks weights(networks);
        const bool packed = in_parallel(networks, threads, [&](std::size_t k) {
            weights[k] = std::make_unique<Weights>(
                Weights::FORTH, hidden, w + k * n.columns * hidden, of_network(bias_h, k, hidden), of_network(rates, k, hidden),
                exponent, inputs, w_x + k * n.columns * inputs, of_network(bias, k, n.columns));
        });
        if (!packed) return 1;
        std::size_t rows = (networks * batch + threads - 1) / threads;
        rows = std::min(std::min(rows, batch) + TILE_ROWS - 1, MOST_ROWS) / TILE_ROWS * TILE_ROWS;
        const std::size_t parts = (batch + rows - 1) / rows;
        return !in_parallel(networks * parts, threads, [&](std::size_t item) {
            const std::size_t k = item / parts, first = item % parts * rows;
            const Run run{time, batch, substeps, steps, x + k * x_network, h0 + k * state, dt + k * dt_network, dt_time, dt_batch};
            forwards(*weights[k], run, first, std::min(rows, batch - first), rest, hs + k * time * state,
                     of_network(kept, k, keep));
        });
    } catch (const std::bad_alloc&) {
        return 1;
    }
}

// The same but for h0, with what `forwards` kept, resting where of_dt is null, and of_hs (time, batch, state) -> of_x (time
// substeps, batch, inputs) or null, and the gradients of w_x, bias or null, w, bias_h or null, rates or null, h0, and dt (time
// substeps, batch) or null.
EXPORTED int ctrnn_cells_backwards(std::size_t networks, std::size_t time, std::size_t batch, std::size_t inputs,
                                   std::size_t hidden, std::size_t substeps, const real* x, std::size_t x_network,
                                   const real* w_x, const real* bias, const real* w, const real* bias_h, const real* rates,
                                   double exponent, const real* dt, std::size_t dt_network, std::size_t dt_time,
                                   std::size_t dt_batch, std::size_t threads, const real* kept, const real* of_hs, real* of_x,
                                   real* of_w_x, real* of_bias, real* of_w, real* of_bias_h, real* of_rates, real* of_h0,
                                   real* of_dt) {
    try {
        const Sizes n(hidden, inputs);
        const std::size_t steps = time * substeps, state = batch * n.width, keep = steps * batch * kept_of_a_step(n);
        std::size_t share = 8 * ((batch + 8 * MOST_GROUPS - 1) / (8 * MOST_GROUPS));
        if (n.product * n.units * sizeof(real) > LARGE) share = std::max<std::size_t>(share, batch < 64 ? 16 : 32);
        const std::size_t groups = (batch + share - 1) / share;
        Networks weights(networks);
        std::vector<std::unique_ptr<Sums>> sums(networks * groups);
        const auto gradients = [&](std::size_t k) {
            return Gradients{of_network(of_x, k, steps * batch * inputs),
                             of_w_x + k * n.columns * inputs,
                             of_network(of_bias, k, n.columns),
                             of_w + k * n.columns * hidden,
                             of_network(of_bias_h, k, hidden),
                             of_network(of_rates, k, hidden),
                             of_h0 + k * state,
                             of_network(of_dt, k, steps * batch)};
        };
        const bool packed = in_parallel(networks, threads, [&](std::size_t k) {
            weights[k] = std::make_unique<Weights>(
                Weights::BACK, hidden, w + k * n.columns * hidden, of_network(bias_h, k, hidden), of_network(rates, k, hidden),
                exponent, inputs, w_x + k * n.columns * inputs, of_network(bias, k, n.columns));
        });
        const bool summed = packed && in_parallel(networks * groups, threads, [&](std::size_t item) {
            const std::size_t k = item / groups, group = item % groups, end = std::min(batch, (group + 1) * share);
            const Run run{time, batch, substeps, steps, x + k * x_network, nullptr, dt + k * dt_network, dt_time, dt_batch};
            const Gradients to = gradients(k);
            sums[item] = std::make_unique<Sums>(n);
            for (std::size_t first = group * share; first < end; first += MOST_ROWS)
                Backwards(*weights[k], run, kept + k * keep, of_hs + k * time * state, to, *sums[item], first,
                          std::min(MOST_ROWS, end - first)).go();
        });
        return !(summed && in_parallel(networks, threads, [&](std::size_t k) {
            for (std::size_t group = 1; group < groups; ++group) sums[k * groups]->add(*sums[k * groups + group]);
            write(*weights[k], *sums[k * groups], gradients(k));
        }));
    } catch (const std::bad_alloc&) {
        return 1;
    }
}

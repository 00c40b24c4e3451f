// A solve along an input whose pieces are polynomials of time: what was given, and the field as its samples read it.
#pragma once

#include <time.h>  // not <chrono>, <atomic> and <cmath>, which take as long to compile as a field's program

#include "written_method.h"

namespace {

#if LANEWISE
// A field of a few units, written out for samples side by side: a vector holds the same number of as many samples as it has lanes.
struct Model {
    const std::size_t width, columns, state;
    const CtrnnProgram program;

    explicit Model(const CtrnnModel& given)
        : width(given.state), columns(given.columns), state(padded(given.state)), program(*given.program) {}
};

constexpr std::size_t SLOTS = 4 * LANES;  // four vectors: the sums over stages take turns
#else
constexpr std::size_t SLOTS = 8;
#endif
constexpr std::size_t MOST_GROUPS = 16;  // with sums of their own on the way back
constexpr std::size_t MOST_TERMS = 32;   // of a polynomial
constexpr double ERROR_MARGIN = 8, SAFETY = 0.9, SHRINK = 0.2, GROW = 10, SHORTEST_STEP = 1e-14;

// Seconds of a clock that nobody sets.
inline double now() {
    timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return double(at.tv_sec) + 1e-9 * double(at.tv_nsec);
}

}  // namespace

extern "C" {

// How the steps of an explicit pair become polynomials: by its slopes, `stages` of them with `nodes`, rows of `a` (stages, stages) and `b`
// (stages,); by slopes at two shares `inside` of a step, in states by `between` (2, stages); and, dt times, by `mix` (NODES - 1, 5) of the
// first slope, these two, the last one and the mean.
struct CtrnnDense {
    std::size_t stages;
    const double *nodes, *a, *b, *inside, *between, *mix;
};

// What was before a solve of a field with delays, whose last columns of the projected input are `lags` states, each of a delay ago:
// `pieces` polynomials of each sample, by `begins`, `lengths` (batch, pieces) and `nodes` (pieces, batch, NODES, state), which count by
// `powers` (NODES, NODES) of the share of a piece that is over. In a segment, of `starts` and `ends`, a lag sees times from `low` to `high`
// (lags, segments..). The steps that are taken become polynomials by `dense`; where that is null they do if `halves` is 1, by half a
// step more each. `blocks` (segments,) is 1 where a block begins: it reads what the blocks before it have solved, and its first step is
// guessed anew. It is null where there is one block alone. Of the way back: `of_steps` (steps, state), cotangents of the states before
// the steps that were taken, or of polynomials those of their nodes, (steps, NODES, state), those of a sample from `first` (batch,) on, to
// which later blocks add; and where those of `nodes` and of `delays`, (lags, batch), are added to.
struct CtrnnPast {
    std::size_t lags, pieces, halves;
    const double *delays, *begins, *lengths;
    const real* nodes;
    const double *powers, *starts, *ends, *low, *high;
    const CtrnnDense* dense;
    const std::int64_t *blocks, *first;
    real *of_steps, *of_nodes;
    double* of_delays;
};

// What the caller gives, `first_step` 0 for a guess; `max_num_steps` of a sample in a segment, `most_steps` in all. All of it alive
// as long as the solve. `keep`: how many steps of each sample are kept. Numbers of a segment are (segments,), or (segments, batch)
// where `own`; lengths double, pieces the first rows of `projected` (rows, batch, columns) that a segment reads: `terms` of them,
// 1 of a held input, 2 of a straight one, where it is and where it goes; or, where `chebyshev`, the coefficients of a polynomial.
// `share` and `share_rate`: how far through its piece a segment begins, and how fast it goes; null for held inputs.
// `speeds` (.., speed_terms): how fast the clock goes, as a polynomial in each segment; null for 1. `places` (segments + 1,): where the state
// at that edge goes in hs (wanted, batch, state), or -1. `atol` (state,); `jacobian_cost` in evaluations of the field. `steps`, `taken`
// (batch,): where this is the rest of a solve, each sample's next step, 0 for a guess, and how many it took before; else null. `past`: of
// a field with delays, else null.
struct CtrnnProblem {
    std::size_t batch, segments, own, threads, keep, terms, chebyshev, speed_terms;
    const CtrnnModel* model;
    const real *projected, *h0;
    const double* lengths;
    const std::int64_t* pieces;
    const double *share, *share_rate, *speeds;
    const std::int64_t* places;
    std::size_t jacobian_cost;
    const double* atol;
    double order, rtol, min_step, max_step, first_step;
    std::int64_t max_num_steps, most_steps;
    const double* steps;
    const std::int64_t* taken;
    real* hs;
    const struct CtrnnMethod* method;
    const CtrnnPast* past;
};

// What became of one sample; `step`: what it would take next. cause: 0 it got there; 1 too many steps in a segment; 2 no step is short enough; 3 too many in all.
struct CtrnnReport {
    std::int64_t accepted, rejected, evaluations, forced;
    double smallest, smallest_tau, forced_tau, forced_error, tau, step;
    std::int64_t smallest_segment, forced_segment, segment, cause, rejected_last;
};
}

namespace {

// Of the rows of a piece.
using Shares = FixedArray<real, MOST_TERMS>;

// Chebyshev's polynomials T_0, T_1, ... at z; and their derivatives, times `rate`.
Shares polynomials(std::size_t terms, double z) {
    Shares to{};
    double last = 1, before = z;
    for (std::size_t d = 0; d < terms; ++d) {
        to[d] = real(last);
        const double next = 2 * z * last - before;
        before = last;
        last = next;
    }
    return to;
}

Shares polynomial_rates(std::size_t terms, double z, double rate) {
    Shares to{};
    double last = 1, before = 0;  // of the second kind: T_d' = d U_(d-1)
    for (std::size_t d = 1; d < terms; ++d) {
        to[d] = real(rate * double(d) * last);
        const double next = 2 * z * last - before;
        before = last;
        last = next;
    }
    return to;
}

// Of a state of the past: the nodes of the piece and where their cotangents go on the way back, their weights there, and the first and
// second derivatives of these by the time.
constexpr std::size_t NODES = 6;
struct Seen {
    const real* nodes;
    real* of_nodes;
    FixedArray<real, NODES> weights, rates, bends;
};

struct Step {
    std::size_t segment;
    double tau, dt;
};

// A sample on its way.
struct Slot {
    bool taken = false, begun = false, known = false, held_back = false;
    bool differentiated = false;  // of implicit methods: the Jacobian at the state
    std::size_t sample = 0, segment = 0;
    double tau = 0, step = 0, dt = 0, steps = 1;
    std::int64_t tried = 0;  // in this segment
};

struct Sample {
    CtrnnReport said{};
    Array<Step> steps;
    Numbers states;       // before each of them
    Numbers nodes;        // (steps, NODES, state), where these become polynomials
    Array<double> begins;  // when they begin, where later blocks read them
    Numbers h, error;     // where it failed, and the error of a last try that was rejected
};

// A solve: what was given, and what became of every sample.
struct Solve {
    const CtrnnProblem given;
    const Model model;
    const std::size_t slots;  // of a group
    const WrittenMethod method;
    const std::size_t columns;  // of the input alone, without the past
    Array<Sample> samples;
    std::size_t last_segment;  // beyond the one in which a sample failed nobody has to go; read and set by all threads
    std::size_t landed = 0;    // segments that are done, of all samples together; likewise

    explicit Solve(const CtrnnProblem& p)
        : given(p), model(*p.model), slots(LANEWISE ? smaller(SLOTS, padded(p.batch)) : SLOTS),
          method(*p.method, p.order, LANEWISE ? slots : 1), columns(model.columns - (p.past ? p.past->lags * model.width : 0)),
          samples(p.batch), last_segment(p.segments) {}

    void land() { __atomic_fetch_add(&landed, 1, __ATOMIC_RELAXED); }
    bool beyond_last(std::size_t segment) const { return segment > __atomic_load_n(&last_segment, __ATOMIC_RELAXED); }
    void end_with(std::size_t segment) {
        std::size_t last = __atomic_load_n(&last_segment, __ATOMIC_RELAXED);
        while (segment < last &&
               !__atomic_compare_exchange_n(&last_segment, &last, segment, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    }

    std::size_t at(std::size_t segment, std::size_t sample) const { return given.own ? segment * given.batch + sample : segment; }
    double length(std::size_t segment, std::size_t sample) const { return given.lengths[at(segment, sample)]; }
    const real* projected(std::size_t piece, std::size_t sample) const {
        return given.projected + (piece * given.batch + sample) * columns;
    }
    std::size_t piece(std::size_t segment, std::size_t sample) const { return std::size_t(given.pieces[at(segment, sample)]); }
    // How far through its piece: 0 for held inputs. Beyond the ends of a segment the input stands still.
    double share(std::size_t segment, std::size_t sample, double tau) const {
        if (!given.share) return 0;
        const std::size_t i = at(segment, sample);
        return given.share[i] + __builtin_fmin(__builtin_fmax(tau, 0.0), given.lengths[i]) * given.share_rate[i];
    }
    // What each of the rows of a piece counts for at a time; and in the derivative by the time.
    Shares shares(std::size_t segment, std::size_t sample, double tau) const {
        const double through = share(segment, sample, tau);
        if (given.chebyshev) return polynomials(given.terms, 2 * through - 1);
        Shares found{};
        found[0] = given.terms == 1 ? real(1) : real(1) - real(through);
        found[1] = real(through);
        return found;
    }
    Shares rates(std::size_t segment, std::size_t sample, double tau) const {
        const double rate = given.share_rate[at(segment, sample)];
        if (given.chebyshev) return polynomial_rates(given.terms, 2 * share(segment, sample, tau) - 1, 2 * rate);
        Shares found{};
        found[0] = real(-rate);
        found[1] = real(rate);
        return found;
    }
    // The sum of the rows of a piece; and its cotangent, to these.
    void sum_up(std::size_t segment, std::size_t sample, const Shares& shares, real* to) const {
        const std::size_t first = piece(segment, sample);
        fill(to, columns, real(0));
        for (std::size_t d = 0; d < given.terms; ++d) {
            const real* from = projected(first + d, sample);
            for (std::size_t i = 0; i < columns; ++i) to[i] += shares[d] * from[i];
        }
    }
    void give_rows(std::size_t segment, std::size_t sample, const Shares& shares, const real* of, real* of_projected) const {
        for (std::size_t d = 0; d < given.terms; ++d)
            give_sample(piece(segment, sample) + d, sample, shares[d], of, of_projected);
    }
    // How fast the projected input and the past change; and the cotangent, to the rows of the input, the nodes and the delays.
    void rise(std::size_t segment, std::size_t sample, double tau, real* to) const {
        if (given.share) sum_up(segment, sample, rates(segment, sample, tau), to);
        else fill(to, columns, real(0));
        if (given.past) read_past(segment, sample, tau, to + columns, &Seen::rates);
    }
    void give_rise(std::size_t segment, std::size_t sample, double tau, const real* of, real* of_projected) const {
        if (given.share) give_rows(segment, sample, rates(segment, sample, tau), of, of_projected);
        if (given.past) give_past(segment, sample, tau, of + columns, &Seen::rates, &Seen::bends);
    }
    // The cotangent of the projected input at a time, to its rows.
    void give(std::size_t segment, std::size_t sample, double tau, const real* of, real* of_projected) const {
        give_rows(segment, sample, shares(segment, sample, tau), of, of_projected);
        if (given.past) give_past(segment, sample, tau, of + columns);
    }
    // What a lag sees at a time: by the piece that is meant, where that may be said on either side of a knot.
    Seen seen(std::size_t lag, std::size_t segment, std::size_t sample, double tau) const {
        const CtrnnPast& past = *given.past;
        const std::size_t i = at(segment, sample), j = lag * given.segments * (given.own ? given.batch : 1) + i;
        const double now_ = __builtin_fmax(__builtin_fmin(past.starts[i] + tau, past.ends[i]), past.starts[i]);
        const double t = now_ - past.delays[lag];
        const double inside = __builtin_fmin(__builtin_fmax(t, past.low[j]), __builtin_fmax(past.low[j], past.high[j]));
        const std::size_t each = NODES * model.width;
        const Sample& own = samples[sample];
        if (past.blocks && !own.begins.empty() && own.begins.front() < inside) {
            const std::size_t step = piece_at(own.begins.data(), own.begins.size(), inside);
            real* of_nodes = past.of_steps ? past.of_steps + (std::size_t(past.first[sample]) + step) * each : nullptr;
            return weighed(own.nodes.data() + step * each, of_nodes, (t - own.begins[step]), own.steps[step].dt);
        }
        const std::size_t piece = piece_at(past.begins + sample * past.pieces, past.pieces, inside), at = sample * past.pieces + piece;
        const std::size_t place = (piece * given.batch + sample) * each;
        return weighed(past.nodes + place, past.of_nodes ? past.of_nodes + place : nullptr, t - past.begins[at], past.lengths[at]);
    }
    // The last piece that begins before a time, or the first one.
    static std::size_t piece_at(const double* begins, std::size_t pieces, double time) {
        std::size_t first = 0, end = pieces;
        while (first < end) {
            const std::size_t middle = (first + end) / 2;
            if (begins[middle] < time) first = middle + 1;
            else end = middle;
        }
        return first ? first - 1 : 0;
    }
    // A piece some time after its begin.
    Seen weighed(const real* nodes, real* of_nodes, double since, double length) const {
        const double whole = length > 0 ? length : 1.0, share = since / whole;
        Seen found{nodes, of_nodes, {}, {}, {}};
        for (std::size_t k = 0; k < NODES; ++k) {
            double value = 0, rate = 0, bend = 0;  // Horner's scheme, of the polynomial, its derivative and half of that of this
            for (std::size_t power = NODES; power-- > 0;) {
#if IMPLICIT
                bend = bend * share + rate;
#endif
                rate = rate * share + value;
                value = value * share + given.past->powers[power * NODES + k];
            }
            found.weights[k] = real(value), found.rates[k] = real(rate / whole), found.bends[k] = real(2 * bend / (whole * whole));
        }
        return found;
    }
    using Weights = FixedArray<real, NODES> Seen::*;
    // All states of the past, or with other weights their derivatives, with room beyond for a vector.
    void read_past(std::size_t segment, std::size_t sample, double tau, real* to, Weights weights = &Seen::weights) const {
        const std::size_t width = model.width;
        for (std::size_t lag = 0; lag < given.past->lags; ++lag, to += width) {
            const Seen there = seen(lag, segment, sample, tau);
            for (std::size_t i = 0; i < width; i += LANES) {
                vec state = (there.*weights)[0] * load(there.nodes + i, width - i);
                for (std::size_t k = 1; k < NODES; ++k) state += (there.*weights)[k] * load(there.nodes + k * width + i, width - i);
                store(to + i, state);
            }
        }
    }
    // Their cotangents, to the nodes and the delays; `rates`: derivatives of the weights by the time.
    void give_past(std::size_t segment, std::size_t sample, double tau, const real* of, Weights weights = &Seen::weights,
                   Weights rates = &Seen::rates) const {
        const CtrnnPast& past = *given.past;
        const std::size_t width = model.width;
        for (std::size_t lag = 0; lag < past.lags; ++lag, of += width) {
            const Seen there = seen(lag, segment, sample, tau);
            real* to = there.of_nodes;
            double later = 0;
            for (std::size_t k = 0; k < NODES; ++k) {
                vec total{};
                for (std::size_t i = 0; i < width; i += LANES) {
                    const std::size_t left = smaller(width - i, LANES);
                    const vec by = load(of + i, left);
                    const vec sum = load(to + k * width + i, left) + (there.*weights)[k] * by;
                    std::memcpy(to + k * width + i, &sum, left * sizeof(real));
                    total += load(there.nodes + k * width + i, left) * by;
                }
                for (std::size_t lane = 0; lane < LANES; ++lane) later += double((there.*rates)[k] * total[lane]);
            }
            past.of_delays[lag * given.batch + sample] -= later;
        }
    }
    bool begins_block(std::size_t segment) const { return given.past && given.past->blocks && given.past->blocks[segment]; }
    const CtrnnDense* dense() const { return given.past ? given.past->dense : nullptr; }
    bool by_halves() const { return given.past && given.past->halves; }
    bool makes_nodes() const { return dense() || by_halves(); }
    // The cotangent of the state before a step, of what reads it beside the step, and where steps become polynomials those of the
    // other nodes; null where nothing does.
    const real* of_step(std::size_t sample, std::size_t number) const {
        if (!given.past) return nullptr;
        const std::size_t each = (makes_nodes() ? NODES : 1) * model.width;
        return given.past->of_steps + (std::size_t(given.past->first[sample]) + number) * each;
    }
    // How fast the clock goes.
    real speed(std::size_t segment, std::size_t sample, double tau) const {
        if (!given.speed_terms) return 1;
        const std::size_t i = at(segment, sample);
        const double* terms = given.speeds + i * given.speed_terms;
        const double through = __builtin_fmin(__builtin_fmax(tau / given.lengths[i], 0.0), 1.0);
        double last = 0, before = 0;  // Clenshaw's sum
        for (std::size_t d = given.speed_terms; d-- > 1;) {
            const double next = terms[d] + 2 * (2 * through - 1) * last - before;
            before = last;
            last = next;
        }
        return real(terms[0] + (2 * through - 1) * last - before);
    }
    // How fast that changes.
    real acceleration(std::size_t segment, std::size_t sample, double tau) const {
        const std::size_t i = at(segment, sample);
        const double* terms = given.speeds + i * given.speed_terms;
        const double z = 2 * __builtin_fmin(__builtin_fmax(tau / given.lengths[i], 0.0), 1.0) - 1;
        double total = 0, last = 1, before = 0;
        for (std::size_t d = 1; d < given.speed_terms; ++d) {
            total += terms[d] * double(d) * last;
            const double next = 2 * z * last - before;
            before = last;
            last = next;
        }
        return real(2 / given.lengths[i] * total);
    }
    // max over units of margin |value| / (atol_i + rtol |state|); nan where any is
    template <class States, class Values> double size(States state, Values value) const {
        double largest = 0;
        for (std::size_t i = 0; i < model.width; ++i) {
            const double q = __builtin_fabs(double(value(i))) / (given.atol[i] + given.rtol * __builtin_fabs(double(state(i))));
            if (!(q <= largest)) largest = __builtin_isnan(q) || __builtin_isnan(largest) ? __builtin_nan("") : q;
        }
        return ERROR_MARGIN * largest;
    }

    void copy_state(const real* from, real* to) const { std::memcpy(to, from, model.width * sizeof(real)); }

    bool input_moves() const { return given.share || given.past; }
    bool moves() const { return input_moves() || given.speed_terms; }
    void give_sample(std::size_t piece, std::size_t sample, real share, const real* of, real* of_projected) const {
        real* to = of_projected + (piece * given.batch + sample) * columns;
        for (std::size_t i = 0; i < columns; ++i) to[i] += share * of[i];
    }
    void write(std::size_t edge, std::size_t sample, const real* h) const {
        if (given.places[edge] < 0) return;
        copy_state(h, given.hs + (std::size_t(given.places[edge]) * given.batch + sample) * model.width);
    }
};

// A step that was taken, as the way back finds it: the state before it, and the cotangent of the state after it, which
// becomes that of the one before.
struct TakenStep {
    std::size_t sample;
    Step step;
    const real* h;
    real* of_h;
    const real *nodes, *of_nodes;  // of a step that became a polynomial
};

// Round after round of the samples in their slots, the next sample in as soon as a slot is free. True once none is left, false
// at the deadline.
template <typename Slots, typename Begin, typename Round>
bool by_slots(const Slots& slots, std::size_t& next, std::size_t end, double deadline, Begin begin, Round round) {
    Array<std::size_t> on;
    do {
        on.clear();
        for (std::size_t s = 0; s < slots.size(); ++s) {
            while (!slots[s].taken && next < end) begin(s, next++);
            if (slots[s].taken) on.push_back(s);
        }
        if (on.empty()) return true;
        round(on);
    } while (now() < deadline);
    return false;
}

}  // namespace

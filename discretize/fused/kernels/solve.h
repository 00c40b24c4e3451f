// A solve along held or straight inputs: what was given, and the field as its samples read it.
#pragma once

#include <chrono>
#include <memory>

#if WRITTEN
#include "written_model.h"
#else
#include "named_model.h"
#endif
#if IMPLICIT
#include "rosenbrock.h"
using Method = Rosenbrock;
#else
#include "tableau.h"
using Method = Tableau;
#endif

namespace {

constexpr std::size_t SLOTS = 8;
constexpr std::size_t MOST_GROUPS = 16;  // with sums of their own on the way back
constexpr double ERROR_MARGIN = 8, SAFETY = 0.9, SHRINK = 0.2, GROW = 10, SHORTEST_STEP = 1e-14;

using Clock = std::chrono::steady_clock;

}  // namespace

extern "C" {

// What the caller gives, `first_step` 0 for a guess; `max_num_steps` of a sample in a segment, `most_steps` in all. All of it alive
// as long as the solve. `keep`: how many steps of each sample are kept. Numbers of a segment are (segments,), or (segments, batch)
// where `own`; lengths double, pieces the rows of `projected` (pieces, batch, columns). `share` and `share_rate`: how far
// through its piece a segment begins, and how fast it goes; null for held inputs. `places` (segments + 1,): where the state
// at that edge goes in hs (wanted, batch, state), or -1. c, a, b, e: as the method reads them, `gamma` where it is implicit;
// `jacobian_cost` in evaluations of the field. `steps`, `taken` (batch,): where this is the rest of a solve, each sample's next
// step, 0 for a guess, and how many it took before; else null.
struct CtrnnProblem {
    std::size_t batch, segments, own, threads, keep;
    const CtrnnModel* model;
    const real *projected, *h0;
    const double* lengths;
    const std::int64_t* pieces;
    const double *share, *share_rate;
    const std::int64_t* places;
    std::size_t stages, jacobian_cost;
    const double *c, *a, *b, *e;
    double gamma, order, rtol, atol, min_step, max_step, first_step;
    std::int64_t max_num_steps, most_steps;
    const double* steps;
    const std::int64_t* taken;
    real* hs;
};

// What became of one sample; `step`: what it would take next. cause: 0 it got there; 1 too many steps in a segment; 2 no step is short enough; 3 too many in all.
struct CtrnnReport {
    std::int64_t accepted, rejected, evaluations, forced;
    double smallest, smallest_tau, forced_tau, forced_error, tau, step;
    std::int64_t smallest_segment, forced_segment, segment, cause, rejected_last;
};
}

namespace {

struct Step {
    std::size_t segment;
    double tau, dt;
};

struct Sample {
    CtrnnReport said{};
    std::vector<Step> steps;
    Numbers states;       // before each of them
    Numbers h, error;     // where it failed, and the error of a last try that was rejected
};

// A solve: what was given, and what became of every sample.
struct Solve {
    const CtrnnProblem given;
    const Model model;
    const Method method;
    std::vector<Sample> samples;
    std::atomic<std::size_t> last_segment;  // beyond the one in which a sample failed nobody has to go
    std::atomic<std::size_t> landed{0};     // segments that are done, of all samples together

    explicit Solve(const CtrnnProblem& p)
        : given(p), model(*p.model),
#if IMPLICIT
          method(p.stages, p.c, p.a, p.b, p.e, p.gamma, p.order),
#else
          method(p.stages, p.c, p.a, p.b, p.e, p.order),
#endif
          samples(p.batch), last_segment(p.segments) {}

    std::size_t at(std::size_t segment, std::size_t sample) const { return given.own ? segment * given.batch + sample : segment; }
    double length(std::size_t segment, std::size_t sample) const { return given.lengths[at(segment, sample)]; }
    const real* projected(std::size_t piece, std::size_t sample) const {
        return given.projected + (piece * given.batch + sample) * model.columns;
    }
    std::size_t piece(std::size_t segment, std::size_t sample) const { return std::size_t(given.pieces[at(segment, sample)]); }
    // How far through its piece: 0 for held inputs. Beyond the ends of a segment the input stands still.
    double share(std::size_t segment, std::size_t sample, double tau) const {
        if (!given.share) return 0;
        const std::size_t i = at(segment, sample);
        return given.share[i] + std::fmin(std::fmax(tau, 0.0), given.lengths[i]) * given.share_rate[i];
    }
    // How fast the projected input changes along a straight piece; and its cotangent, to the samples at both ends.
    void rise(std::size_t segment, std::size_t sample, real* to) const {
        const std::size_t first = piece(segment, sample);
        const real *from = projected(first, sample), *next = projected(first + 1, sample);
        const real rate = real(given.share_rate[at(segment, sample)]);
        for (std::size_t i = 0; i < model.columns; ++i) to[i] = rate * (next[i] - from[i]);
    }
    void give_rise(std::size_t segment, std::size_t sample, const real* of, real* of_projected) const {
        const real rate = real(given.share_rate[at(segment, sample)]);
        give_sample(piece(segment, sample), sample, -rate, of, of_projected);
        give_sample(piece(segment, sample) + 1, sample, rate, of, of_projected);
    }
    // The cotangent of the projected input at a time, to those of its samples.
    void give(std::size_t segment, std::size_t sample, double tau, const real* of, real* of_projected) const {
        const std::size_t at = piece(segment, sample);
        const real through = real(share(segment, sample, tau));
        give_sample(at, sample, given.share ? real(1) - through : real(1), of, of_projected);
        if (given.share) give_sample(at + 1, sample, through, of, of_projected);
    }
    void give_sample(std::size_t piece, std::size_t sample, real share, const real* of, real* of_projected) const {
        real* to = of_projected + (piece * given.batch + sample) * model.columns;
        for (std::size_t i = 0; i < model.columns; ++i) to[i] += share * of[i];
    }
    void write(std::size_t edge, std::size_t sample, const real* h) const {
        if (given.places[edge] < 0) return;
        model.narrow(h, given.hs + (std::size_t(given.places[edge]) * given.batch + sample) * model.width);
    }
};

// dh/dt of a few rows at once, each of a sample of its own at a time of its own.
class Field {
  public:
    Field(const Solve& solve, std::size_t rows, std::size_t stages)
        : evaluator(solve.model, rows, stages), solve(solve), there(solve.model.columns) {}

    void read(std::size_t stage, std::size_t row, std::size_t segment, std::size_t sample, double tau) {
        evaluator.read(stage, row, at(segment, sample, tau));
    }

    // The projected input, until the next call.
    const real* at(std::size_t segment, std::size_t sample, double tau) {
        const std::size_t piece = solve.piece(segment, sample);
        const real* projected = solve.projected(piece, sample);
        if (!solve.given.share) return projected;
        const real share = real(solve.share(segment, sample, tau));
        const real* next = solve.projected(piece + 1, sample);
        for (std::size_t i = 0; i < there.size(); ++i) there[i] = projected[i] + share * (next[i] - projected[i]);
        return there.data();
    }

    Evaluator evaluator;

  private:
    const Solve& solve;
    Numbers there;
};

// A step that was taken, as the way back finds it: the state before it, and the cotangent of the state after it, which
// becomes that of the one before.
struct TakenStep {
    std::size_t sample;
    Step step;
    const real* h;
    real* of_h;
};

// Round after round of the samples in their slots, the next sample in as soon as a slot is free. True once none is left, false
// at the deadline.
template <typename Slots, typename Begin, typename Round>
bool by_slots(const Slots& slots, std::size_t& next, std::size_t end, Clock::time_point deadline, Begin begin, Round round) {
    do {
        std::vector<std::size_t> on;
        for (std::size_t s = 0; s < slots.size(); ++s) {
            while (!slots[s].taken && next < end) begin(s, next++);
            if (slots[s].taken) on.push_back(s);
        }
        if (on.empty()) return true;
        round(on);
    } while (Clock::now() < deadline);
    return false;
}

}  // namespace

// A named field as a solver reads it: its slopes and their derivatives, a few rows at once, each of a sample of its own.
#pragma once

#include "field.h"
#include "parallel.h"
#include "scratch.h"

static_assert(LEAK == 0, "an exact solve does not ask for the leak");

extern "C" {

// Weights, and where their gradients go: w (columns, hidden), bias_h and rates (hidden,) or null.
struct CtrnnModel {
    std::size_t hidden;
    const real *w, *bias_h, *rates;
    double exponent;
};

struct CtrnnSums {
    real *w, *bias_h, *rates;
};
}

struct Model {
    const Weights w;
    const std::size_t state, width, columns, kept;  // of a padded state and of one as it is, of the input, and what a vjp needs

    explicit Model(const CtrnnModel& given)
        : w(Weights::BOTH, given.hidden, given.w, given.bias_h, given.rates, given.exponent), state(w.n.state), width(w.n.width),
          columns(w.n.columns), kept(w.n.kept) {}

    void widen(const real* from, real* to) const { widen_state(w.n, from, to); }
    void narrow(const real* from, real* to) const { narrow_state(w.n, from, to); }

    // do(i) for the place of every unit in a padded state
    template <class Do> void each_unit(Do unit) const {
        for (std::size_t section = 0; section < STATE_SECTIONS; ++section)
            for (std::size_t i = section * w.n.units; i < section * w.n.units + w.n.hidden; ++i) unit(i);
    }
};

class Evaluator {
  public:
    // `rows` at once, `stages` of them remembered: a named field remembers in what it keeps.
    Evaluator(const Model& model, std::size_t rows, std::size_t stages)
        : w(model.w), a(rows, w.n.product), pulled(rows, IS_RESET ? w.n.units : 0) {
        (void)stages;
    }

    void read(std::size_t stage, std::size_t row, const real* projected) {
        (void)stage;
        begin_product(w, projected, a[row], IS_RESET ? pulled[row] : nullptr);
    }

    void evaluate(std::size_t stage, std::size_t rows, real* const* h, real* const* kept, real* const* slope) {
        (void)stage;
        multiply(rows, w.forwards, h, a.at.data());
        for (std::size_t m = 0; m < rows; ++m)
            flow(w, a[m], IS_RESET ? pulled[m] : nullptr, h[m], kept[m], slope[m], nullptr);
    }

  private:
    const Weights& w;
    Rows a, pulled;
};

class Pullback {
  public:
    Pullback(const Model& model, std::size_t rows, std::size_t stages)
        : w(model.w), n(w.n), sums(n), da(rows * stages, n.product), pull(rows, IS_RESET ? n.units : 0),
          of_projected(n.columns) {}

    // The cotangents of a stage's slopes -> of_h, written over, and give(m, those of the projected input).
    template <class Give>
    void back(const Evaluator&, std::size_t stage, std::size_t rows, real* const* h, real* const* kept, real* const* of_slope,
              real* const* of_h, Give give) {
        real* const* to = da.at.data() + stage * rows;
        for (std::size_t m = 0; m < rows; ++m) {
            std::memset(of_h[m], 0, n.state * sizeof(real));
            real* pulled = IS_RESET ? pull[m] : nullptr;
            flow_vjp(w, kept[m], h[m], of_slope[m], nullptr, to[m], pulled, of_h[m], sums.rates.data());
            if (IS_RESET) add_to(sums.bias_h.data(), to[m] + n.units, n.units);
            for (std::size_t section = 0; section < OWN_SECTIONS; ++section) {
                const real* from = IS_RESET && section == 1 ? pulled : to[m] + section * n.units;
                std::memcpy(of_projected.data() + section * n.hidden, from, n.hidden * sizeof(real));
            }
            if (HAS_GATE)
                std::memcpy(of_projected.data() + OWN_SECTIONS * n.hidden, to[m] + OWN_SECTIONS * n.units,
                            (SHARED ? 1 : n.hidden) * sizeof(real));
            give(m, of_projected.data());
        }
        multiply(rows, w.backwards, to, of_h);
    }

    // What the stages so far add to the weights' gradients; h (stages rows): their states.
    void sum_up(std::size_t depth, Rows& h) {
        outer.add(depth, n.product, n.units, da[0], da.stride, h[0], h.stride, sums.weights.data(), n.units);
    }

    void add(const Pullback& other) { sums.add(other.sums); }
    void write(const CtrnnSums& to) const { sums.write(w, to.w, to.bias_h, to.rates); }

  private:
    const Weights& w;
    const Sizes& n;
    Sums sums;
    Rows da, pull;
    Outer outer;
    Numbers of_projected;
};

// The right-hand side of a field and its derivative, unit by unit, once the products with the state are there.
//
//     CANDIDATE  0 tanh, 1 reset, 2 lstm, 3 relu      RATE  0 constant, 1 sigmoid, 2 softplus, 3 exponential      SHARED  one gate for all
//     POWER      0 decay h, 1 decay |h|^r h   LEAK  1 where a step asks for the leak too
//
// Everything of a row is in sections of `units` numbers, the hidden size padded to whole vectors:
//     product    what W h gives:       tanh, relu [c, g]   reset [r, u, g]      lstm [i, f, g, o]          a shared gate: one vector
//     kept       what a vjp needs:     tanh, relu [f, g]   reset [r, u, n, g]   lstm [i, f, g, o, tanh c', 1 - f]
//     state      [h], lstm [h, c]
//     read       what the weights' gradients are sums over:  [h, x, 1], or [h] where the projection of x is given
// Where units are padded everything is finite and the cotangents are 0, so no sum needs a mask but that over a shared gate.
#pragma once

#include "products.h"

constexpr bool IS_RESET = CANDIDATE == 1, IS_LSTM = CANDIDATE == 2, IS_RELU = CANDIDATE == 3;
constexpr bool HAS_GATE = RATE != 0 && !IS_LSTM, HAS_RATES = RATE == 0 && !IS_LSTM;
constexpr std::size_t OWN_SECTIONS = IS_LSTM ? 4 : IS_RESET ? 2 : 1;           // of the product, without the gate
constexpr std::size_t KEPT_SECTIONS = IS_LSTM ? (LEAK ? 6 : 5) : IS_RESET ? 3 : 1;  // of what is kept, without the gate
constexpr std::size_t STATE_SECTIONS = IS_LSTM ? 2 : 1;

struct Sizes {
    std::size_t hidden, inputs, units, read, gate, product, kept, state, columns, width;

    // `inputs` features of x that are projected here; 0 where the projection is given.
    explicit Sizes(std::size_t hidden, std::size_t inputs = 0)
        : hidden(hidden),
          inputs(inputs),
          units(padded(hidden)),
          read(units + (inputs ? padded(inputs + 1) : 0)),
          gate(!HAS_GATE ? 0 : SHARED ? std::size_t(LANES) : units),
          product(OWN_SECTIONS * units + gate),
          kept(KEPT_SECTIONS * units + gate),
          state(STATE_SECTIONS * units),
          columns(OWN_SECTIONS * hidden + (!HAS_GATE ? 0 : SHARED ? 1 : hidden)),
          width(STATE_SECTIONS * hidden) {}

    // The column of W and of the projection that stands at each padded place of a product, or `columns` for none.
    std::vector<std::size_t> places() const {
        std::vector<std::size_t> at(product, columns);
        for (std::size_t section = 0, first = 0; first < product; ++section, first += units) {
            std::size_t own = section == OWN_SECTIONS && SHARED ? 1 : hidden;
            for (std::size_t i = 0; i < own; ++i) at[first + i] = section * hidden + i;
        }
        return at;
    }
};

// A row of the projection or of W h as it is in memory, columns without gaps, into sections; and a state, and back.
inline void widen_columns(const Sizes& n, const real* from, real* to) {
    for (std::size_t section = 0; section < OWN_SECTIONS; ++section)
        widen(from + section * n.hidden, to + section * n.units, n.hidden);
    if (HAS_GATE) widen(from + OWN_SECTIONS * n.hidden, to + OWN_SECTIONS * n.units, SHARED ? 1 : n.hidden);
}

inline void widen_state(const Sizes& n, const real* from, real* to) {
    for (std::size_t section = 0; section < STATE_SECTIONS; ++section)
        widen(from + section * n.hidden, to + section * n.units, n.hidden);
}

inline void narrow_state(const Sizes& n, const real* from, real* to) {
    for (std::size_t section = 0; section < STATE_SECTIONS; ++section)
        narrow(from + section * n.units, to + section * n.hidden, n.hidden);
}

// What is the same for all rows: padded, and laid out for products; those of a way only that are asked for.
struct Weights {
    enum Way { FORTH = 1, BACK = 2, BOTH = 3 };

    Sizes n;
    std::vector<std::size_t> places;
    Numbers bias_h, rates;  // (units,), 0 where there are none
    Numbers start;          // what a product begins with where x is projected here: biases, that of the reset's inside for its own
    real exponent;
    Packed forwards;   // of h, to a product
    Packed projected;  // of x, to a product; of a reset candidate, to its first section,
    Packed pulled;     // to its own projection, which stays outside of the reset,
    Packed to_gate;    // and to the gate
    Packed backwards;  // of cotangents of products, to those of h
    Packed inwards;    // and of x

    // w (columns, hidden); w_x (columns, inputs) and bias (columns,) or null, where x is projected here.
    Weights(Way way, std::size_t hidden, const real* w, const real* bias_in, const real* constants, double r,
            std::size_t inputs = 0, const real* w_x = nullptr, const real* bias = nullptr)
        : n(hidden, inputs),
          places(n.places()),
          bias_h(n.units),
          rates(n.units),
          start(n.product + (IS_RESET ? n.units : 0)),
          exponent(real(r)),
          forwards(way & FORTH ? n.product : 0, hidden, [&](std::size_t place, std::size_t k) { return recurrent(w, place, k); }),
          projected(input_columns(way, IS_RESET ? n.units : n.product), inputs,
                    [&](std::size_t place, std::size_t k) { return of_input(w_x, place, k); }),
          pulled(input_columns(way, IS_RESET ? n.units : 0), inputs,
                 [&](std::size_t unit, std::size_t k) { return of_input(w_x, n.units + unit, k); }),
          to_gate(input_columns(way, IS_RESET ? n.gate : 0), inputs,
                  [&](std::size_t place, std::size_t k) { return of_input(w_x, 2 * n.units + place, k); }),
          backwards(way & BACK ? n.units : 0, n.product,
                    [&](std::size_t unit, std::size_t place) { return recurrent(w, place, unit); }),
          inwards(way & BACK ? n.read - n.units : 0, n.product,
                  [&](std::size_t k, std::size_t place) { return k < inputs ? of_input(w_x, place, k) : real(0); }) {
        if (bias_in) widen(bias_in, bias_h.data(), hidden);
        if (constants) widen(constants, rates.data(), hidden);
        for (std::size_t place = 0; bias && place < n.product; ++place)
            if (places[place] < n.columns) start[place] = bias[places[place]];
        if (IS_RESET) {
            std::memcpy(start.data() + n.product, start.data() + n.units, n.units * sizeof(real));
            std::memcpy(start.data() + n.units, bias_h.data(), n.units * sizeof(real));
        }
    }

  private:
    std::size_t input_columns(Way way, std::size_t columns) const { return way & FORTH && n.inputs ? columns : 0; }

    real recurrent(const real* w, std::size_t place, std::size_t unit) const {
        return unit < n.hidden && places[place] < n.columns ? w[places[place] * n.hidden + unit] : real(0);
    }

    real of_input(const real* w_x, std::size_t place, std::size_t k) const {
        return places[place] < n.columns ? w_x[places[place] * n.inputs + k] : real(0);
    }
};

inline vec gate_of(vec a) {
    return RATE == 1 ? sigmoid(a) : RATE == 2 ? softplus(a) : unbounded_exponential(a);
}

// dg/da by g itself
inline vec gate_slope(vec g) { return RATE == 1 ? g * (real(1) - g) : RATE == 2 ? -exponential_less_1(-g) : g; }

// The candidate without a reset, and its derivative by itself; nan stays nan.
inline vec candidate_of(vec a) { return !IS_RELU ? hyperbolic_tangent(a) : a <= real(0) ? splat(0) : a; }
inline vec candidate_slope(vec f) { return !IS_RELU ? real(1) - f * f : f <= real(0) ? splat(0) : splat(1); }

// Where a product starts from, given the projection: from that, but for what the reset multiplies, from its own bias.
inline void begin_product(const Weights& w, const real* projected, real* a, real* pulled) {
    const Sizes& n = w.n;
    widen_columns(n, projected, a);
    if (IS_RESET) {
        std::memcpy(pulled, a + n.units, n.units * sizeof(real));
        std::memcpy(a + n.units, w.bias_h.data(), n.units * sizeof(real));
    }
}

// dh/dt of the units from i on, and their leak where LEAK. By value: what was just stored would be loaded again.
inline void relax(const Weights& w, vec candidate, vec rate, const real* h, real* slope, real* leak, std::size_t i) {
    vec state = load(h + i), forgetting = POWER ? power(state, w.exponent) : splat(1);
    store(slope + i, rate * (candidate - (POWER ? forgetting * state : state)));
    if (LEAK) store(leak + i, rate * forgetting);
}

inline void carry(const Sizes& n, vec next, vec seen, vec forgetting, const real* h, real* slope, real* leak, std::size_t i) {
    store(slope + i, seen - load(h + i));
    store(slope + n.units + i, next - load(h + n.units + i));
    if (LEAK) {
        store(leak + i, splat(1));
        store(leak + n.units + i, forgetting);
    }
}

// `slope` and `leak` once more, from what was kept.
inline void recall(const Weights& w, const real* kept, const real* h, real* slope, real* leak) {
    const Sizes& n = w.n;
    const real* gates = kept + KEPT_SECTIONS * n.units;
    for (std::size_t i = 0; i < n.units; i += LANES) {
        if (IS_LSTM) {
            vec next = load(kept + n.units + i) * load(h + n.units + i) + load(kept + i) * load(kept + 2 * n.units + i);
            vec seen = load(kept + 3 * n.units + i) * load(kept + 4 * n.units + i);
            carry(n, next, seen, LEAK ? load(kept + 5 * n.units + i) : vec{}, h, slope, leak, i);
        } else {
            vec rate = !HAS_GATE ? load(w.rates.data() + i) : load(gates + (SHARED ? 0 : i));
            relax(w, load(kept + (KEPT_SECTIONS - 1) * n.units + i), rate, h, slope, leak, i);
        }
    }
}

// dh/dt from the finished product `a`, with what its derivative needs in `kept`. `pulled` is the projection of the reset
// candidate itself; `leak` is written where LEAK.
inline void flow(const Weights& w, const real* a, const real* pulled, const real* h, real* kept, real* slope, real* leak) {
    const Sizes& n = w.n;
    const real* to_gates = a + OWN_SECTIONS * n.units;
    real* gates = kept + KEPT_SECTIONS * n.units;
    vec shared = {};
    if (HAS_GATE && SHARED) {
        shared = splat(gate_of(load(to_gates))[0]);
        store(gates, shared);
    }
    for (std::size_t i = 0; i < n.units; i += LANES) {
        if (IS_LSTM) {
            vec before = load(a + n.units + i);
            vec input = sigmoid(load(a + i)), forget = sigmoid(before);
            vec pull = hyperbolic_tangent(load(a + 2 * n.units + i)), output = sigmoid(load(a + 3 * n.units + i));
            vec next = forget * load(h + n.units + i) + input * pull, seen = hyperbolic_tangent(next);
            vec forgetting = LEAK ? sigmoid(-before) : vec{};  // 1 - f without cancellation where f is close to 1
            store(kept + i, input);
            store(kept + n.units + i, forget);
            store(kept + 2 * n.units + i, pull);
            store(kept + 3 * n.units + i, output);
            store(kept + 4 * n.units + i, seen);
            if (LEAK) store(kept + 5 * n.units + i, forgetting);
            carry(n, next, output * seen, forgetting, h, slope, leak, i);
            continue;
        }
        vec candidate;
        if (IS_RESET) {
            vec reset = sigmoid(load(a + i)), product = load(a + n.units + i);
            candidate = hyperbolic_tangent(load(pulled + i) + reset * product);
            store(kept + i, reset);
            store(kept + n.units + i, product);
        } else {
            candidate = candidate_of(load(a + i));
        }
        store(kept + (KEPT_SECTIONS - 1) * n.units + i, candidate);
        vec rate = !HAS_GATE ? load(w.rates.data() + i) : SHARED ? shared : gate_of(load(to_gates + i));
        if (HAS_GATE && !SHARED) store(gates + i, rate);
        relax(w, candidate, rate, h, slope, leak, i);
    }
}

// The cotangents `of_slope` (and `of_leak`, where LEAK) carried back: `da` is that of the product, `pull` that of the reset
// candidate's own projection (units), `dh` and `drates` are added to. What `kept` and `h` hold is left as it is.
inline void flow_vjp(const Weights& w, const real* kept, const real* h, const real* of_slope, const real* of_leak, real* da,
                     real* pull, real* dh, real* drates) {
    const Sizes& n = w.n;
    const real* gates = kept + KEPT_SECTIONS * n.units;
    vec of_shared = {};
    for (std::size_t i = 0; i < n.units; i += LANES) {
        if (IS_LSTM) {
            vec input = load(kept + i), forget = load(kept + n.units + i), pulling = load(kept + 2 * n.units + i);
            vec output = load(kept + 3 * n.units + i), seen = load(kept + 4 * n.units + i), c = load(h + n.units + i);
            vec of_h = load(of_slope + i), of_c = load(of_slope + n.units + i);
            vec of_next = of_h * output * (real(1) - seen * seen) + of_c;
            vec of_forget = of_next * c * forget * (real(1) - forget);
            if (LEAK) of_forget -= load(of_leak + n.units + i) * load(kept + 5 * n.units + i) * forget;
            store(da + i, of_next * pulling * input * (real(1) - input));
            store(da + n.units + i, of_forget);
            store(da + 2 * n.units + i, of_next * input * (real(1) - pulling * pulling));
            store(da + 3 * n.units + i, of_h * seen * output * (real(1) - output));
            store(dh + i, load(dh + i) - of_h);
            store(dh + n.units + i, load(dh + n.units + i) + of_next * forget - of_c);
            continue;
        }
        vec candidate = load(kept + (KEPT_SECTIONS - 1) * n.units + i), state = load(h + i), of = load(of_slope + i);
        vec rate = !HAS_GATE ? load(w.rates.data() + i) : load(gates + (SHARED ? 0 : i));
        vec forgetting = POWER ? power(state, w.exponent) : splat(1);
        vec of_rate = of * (candidate - (POWER ? forgetting * state : state));
        vec of_state = of * rate * (POWER ? forgetting * -(w.exponent + real(1)) : splat(-1));
        if (LEAK) {
            vec leaking = load(of_leak + i);
            of_rate += leaking * forgetting;
            if (POWER) {
                // r |h|^r / h, and 0 at 0; for r < 1 below the smallest normal number too, where that may overflow. Not `< the
                // smallest subnormal`: where a processor takes those for 0, nothing is less.
                auto nothing = w.exponent < real(1) ? absolute(state) < std::numeric_limits<real>::min() : state == real(0);
                vec slope = forgetting * w.exponent / (nothing ? splat(1) : state);
                of_state += nothing ? splat(0) : leaking * rate * slope;
            }
        }
        store(dh + i, load(dh + i) + of_state);
        vec of_pull = of * rate * candidate_slope(candidate);
        if (IS_RESET) {
            vec reset = load(kept + i);
            store(da + i, of_pull * load(kept + n.units + i) * reset * (real(1) - reset));
            store(da + n.units + i, of_pull * reset);
            store(pull + i, of_pull);
        } else {
            store(da + i, of_pull);
        }
        if (HAS_RATES) store(drates + i, load(drates + i) + of_rate);
        if (HAS_GATE && !SHARED) store(da + OWN_SECTIONS * n.units + i, of_rate * gate_slope(rate));
        if (HAS_GATE && SHARED) of_shared += of_rate;
    }
    if (HAS_GATE && SHARED) {
        vec slope = {};
        slope[0] = sum(of_shared) * gate_slope(load(gates))[0];
        store(da + OWN_SECTIONS * n.units, slope);
    }
}

// Gradients of what all samples share, summed over a group of them.
struct Sums {
    Numbers weights, pulled, bias_h, rates;  // of what is read: W and, beside it, Wx and b; of the reset candidate's own Wx and b

    explicit Sums(const Sizes& n)
        : weights(n.product * n.read), pulled(IS_RESET ? n.units * (n.read - n.units) : 0), bias_h(n.units), rates(n.units) {}

    void add(const Sums& other) {
        for (auto part : {&Sums::weights, &Sums::pulled, &Sums::bias_h, &Sums::rates})
            add_to((this->*part).data(), (other.*part).data(), (this->*part).size());
    }

    // w (columns, hidden), bias_h and rates (hidden,) or null
    void write(const Weights& w, real* to_w, real* to_bias_h, real* to_rates) const {
        const Sizes& n = w.n;
        for (std::size_t place = 0; place < n.product; ++place)
            if (w.places[place] < n.columns)
                std::memcpy(to_w + w.places[place] * n.hidden, weights.data() + place * n.read, n.hidden * sizeof(real));
        if (to_bias_h) std::memcpy(to_bias_h, bias_h.data(), n.hidden * sizeof(real));
        if (to_rates) std::memcpy(to_rates, rates.data(), n.hidden * sizeof(real));
    }
};

// Runs a method's attempt over rows, each of a sample or of several side by side, as discretize/kernels/cpp/attempts.py writes it.
// An attempt computes functions of each unit, and calls a field between them. It knows nothing of that field: one library serves all.
#pragma once

#include "rows.h"

// Loads one number of each sample of a row, from slot s on; that of an only sample goes into all lanes.
inline vec each_one(const Shared& shared, const real* from, std::size_t s) { return shared.slots > 1 ? load(from + s) : splat(*from); }

// Writes one number of each sample to all n numbers of its row.
inline void spread(const Shared& shared, const real* from, real* to, std::size_t n) {
    for (std::size_t s = 0; s < shared.across; s += LANES)
        for (std::size_t i = s; i < n; i += shared.across) store(to + i, each_one(shared, from, s), n - i);
}

// Computes the maps of a product for samples side by side, from `start` or, where that is null, from their own vectors;
// `which` numbers the product, `numbers` are those that describe it (rows.h).
inline void map_slots(const Shared& shared, std::size_t which, const real* const* sources, const real* start, real* to) {
    const std::size_t* numbers = shared.product_numbers[which];
    for (std::size_t maps = *numbers++; maps-- > 0;) {
        const std::size_t width = *numbers++, own = *numbers++, parts = *numbers++;
        const real* from = start ? start : own ? shared.vectors[own - 1].data() : nullptr;
        for (std::size_t i = 0; i < width; ++i, to += shared.slots)
            for (std::size_t s = 0; s < shared.slots; s += LANES) {
                vec total = from ? load(from + i * shared.slots + s) : vec{};
                for (std::size_t k = 0; k < parts; ++k) {
                    const std::size_t matrix = numbers[2 * k + 1];
                    const real* source = sources[numbers[2 * k]] + s;
                    for (std::size_t r = 0; r < shared.program.depths[matrix]; ++r)
                        total += shared.program.matrix[matrix][r * width + i] * load(source + r * shared.slots);
                }
                store(to + s, total);
            }
        numbers += 2 * parts;
    }
}

// Computes to(m) = start(m) + the maps of from(m), ...; `mapped` starts from the maps' own vectors.
template <class To, class Start, class... From>
inline void mapped_from(const Shared& shared, std::size_t which, std::size_t rows, To to, Start start, From... from) {
    if (shared.slots == 1) return product_from(shared, which, rows, to, start, from...);
    const real* const sources[] = {nullptr, from(0)...};
    map_slots(shared, which, sources + 1, start(0), to(0));
}

template <class To, class... From>
inline void mapped(const Shared& shared, std::size_t which, std::size_t rows, To to, From... from) {
    if (shared.slots == 1) return product(shared, which, rows, to, from...);
    mapped_from(shared, which, rows, to, [](std::size_t) -> const real* { return nullptr; }, from...);
}

// By call, of each row: the state at which the field is called, and the slope there; on the way back their cotangents.
struct FieldCalls {
    Array<real* const*> states, slopes, of_states, of_slopes;
    // Of methods that read derivatives at the start of a step: that by the time and its cotangent; by pair, two vectors whose products
    // add up to the cotangent of the Jacobian J; and what both are to the state.
    real *const *drift = nullptr, *const *of_drift = nullptr, *const *from_drift = nullptr, *const *from_jacobian = nullptr;
    Array<real* const*> lefts, rights;

    virtual ~FieldCalls() = default;
    virtual void evaluate(std::size_t call, std::size_t rows) = 0;
    virtual void pull(std::size_t call, std::size_t rows) = 0;
    // Of row m: factors a + b J, or solves for v in its place, or gives J v, or J^T v.
    virtual void factor(std::size_t, std::size_t, real, real) {}
    virtual void solve_for(std::size_t, std::size_t, real*, bool) {}
    virtual void multiply(std::size_t, const real*, real*, bool) {}
    virtual void pull_jacobian(std::size_t) {}
    virtual void pull_drift(std::size_t) {}
};

// A step from h, of which slopes[0] is known: where it leads to, unless that is the state of a call, and its error.
struct Attempt {
    virtual ~Attempt() = default;
    virtual void run(std::size_t rows, const real* const* h, const real* dt, FieldCalls& calls, real* const* next,
                     real* const* error) = 0;
};

// The cotangent of the state that it leads to, back to h; what is needed of the step is computed again.
struct AttemptReturn {
    virtual ~AttemptReturn() = default;
    virtual void run(std::size_t rows, const real* const* h, const real* dt, FieldCalls& calls, const real* const* cotangent,
                     real* const* to_h) = 0;
};

extern "C" {

// `calls` of a step with their nodes; `calls_back` of the way back with theirs, the first `pulled` of which are pulled back;
// `following`: the call at the state that the step leads to, and `end`: that whose slope is the next step's first, 0 for none;
// `reads_start`: whether slopes[0] is read; `factors` and `factors_back` of a step and of the way back, `pairs`: of the cotangent of
// the Jacobian; `drift`: whether the derivative by the time is read.
struct CtrnnMethod {
    const CtrnnProgram* program;
    Attempt* (*attempt)(const Shared&, std::size_t rows);
    AttemptReturn* (*attempt_return)(const Shared&, std::size_t rows);
    std::size_t calls, calls_back, pulled, following, end, reads_start, factors, factors_back, pairs, drift;
    const double *nodes, *nodes_back;
};
}

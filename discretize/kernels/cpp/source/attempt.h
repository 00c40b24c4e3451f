// A method's attempt over rows, one sample each, as discretize/kernels/cpp/attempts.py writes it: functions of each unit, and between
// them calls of a field that it knows nothing of. In a library of its own, for all fields.
#pragma once

#include "rows.h"

// By call, of each row: the state at which the field is called, and the slope there; on the way back their cotangents.
struct FieldCalls {
    std::vector<real* const*> states, slopes, of_states, of_slopes;
    // Of methods that read derivatives at the start of a step: that by the time and its cotangent; by pair, two vectors whose products
    // add up to the cotangent of the Jacobian J; and what both are to the state.
    real *const *drift = nullptr, *const *of_drift = nullptr, *const *from_drift = nullptr, *const *from_jacobian = nullptr;
    std::vector<real* const*> lefts, rights;

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

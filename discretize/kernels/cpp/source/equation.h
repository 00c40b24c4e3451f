// The equation u = a + tau F(x, u) that a step solves, for passes that discretize/kernels/cpp writes.
#pragma once

#include "rows.h"

// Solves it for one sample at a time. Of equation.cpp.
struct Equation {
    virtual ~Equation() = default;
    // Whether a solution was found near a guess.
    virtual bool solve(const real* x, const real* a, real tau, const real* guess, real* u) = 0;
    // A^-T v in the place of v, A = 1 - tau dF/du at a solution u.
    virtual void pull(const real* x, const real* u, real tau, real* v) = 0;
};

// That of a pass over rows.
class Equations {
  public:
    explicit Equations(const Shared& shared) : shared(shared), one(shared.program.equation(*shared.flow)) {}
    Equations(const Equations&) = delete;
    ~Equations() { delete one; }

    void solve(const real* x, const real* a, real tau, const real* guess, real* u) {
        if (!one->solve(x, a, tau, guess, u)) __atomic_store_n(&shared.unsolved, true, __ATOMIC_RELAXED);
    }
    void pull(const real* x, const real* u, real tau, real* v) { one->pull(x, u, tau, v); }

  private:
    const Shared& shared;
    Equation* const one;
};

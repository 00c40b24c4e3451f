// A method whose attempt is a program, as a driver reads it.
#pragma once

#include "attempt.h"
#if LANEWISE
#include "driver.h"
#include "parallel.h"
#elif IMPLICIT
#include "derivatives.h"
#else
#include "written_model.h"
#endif

struct WrittenMethod {
    const CtrnnMethod given;
    const Shared shared;
    const double order;
    const std::size_t stages, end_slope, factors;  // slopes after the first one; that with which the next step begins
    const bool last_is_next, reads_start;

    // `slots`: samples of a row.
    WrittenMethod(const CtrnnMethod& method, double order, std::size_t slots)
        : given(method), shared(*method.program, 0, true, true, slots), order(order), stages(method.calls - 1), end_slope(method.end), factors(method.factors),
          last_is_next(method.end), reads_start(method.reads_start) {}
};

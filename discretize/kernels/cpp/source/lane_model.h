// A field of a few units, written out for samples side by side: a vector holds the same number of as many samples as it has lanes.
#pragma once

#include "parallel.h"
#include "rows.h"

extern "C" {

struct CtrnnModel {
    std::size_t state, columns;
    const CtrnnProgram *program, *by_state, *by_input;  // the last two are for implicit methods, which have no lanes
};
}

struct Model {
    const std::size_t width, columns, state;
    const CtrnnProgram program;

    explicit Model(const CtrnnModel& given)
        : width(given.state), columns(given.columns), state(padded(given.state)), program(*given.program) {}

    void widen(const real* from, real* to) const { std::memcpy(to, from, width * sizeof(real)); }
    void narrow(const real* from, real* to) const { std::memcpy(to, from, width * sizeof(real)); }

    // do(i) for the place of every unit in a padded state
    template <class Do> void each_unit(Do unit) const {
        for (std::size_t i = 0; i < width; ++i) unit(i);
    }
};

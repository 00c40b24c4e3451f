// A field of a few units, written out in program.h for samples side by side, as the driver asks for it.

#include "program.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void ctrnn_lane_flow(const CtrnnProgram* given, std::size_t slots, const real* x, const real* h, real* slope) {
    lane_flow(*given, slots, x, h, slope);
}

EXPORTED void ctrnn_lane_return(const CtrnnProgram* given, std::size_t slots, const real* x, const real* h, const real* cotangent,
                                real* to_h, real* to_x, real* sums) {
    lane_return(*given, slots, x, h, cotangent, to_h, to_x, sums);
}

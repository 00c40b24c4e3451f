// Products as functions of a library of their own: they are the same for all programs, and take long to compile.

#include "products.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void ctrnn_multiply(std::size_t rows, const Product* product, const real* const* const* sources, const real* const* from,
                             real* const* y) {
    multiply(rows, *product, sources, from, y);
}

// As `Outer::add`.
EXPORTED void ctrnn_outer(std::size_t depth, std::size_t height, std::size_t width, const real* a, std::size_t a_step,
                          const real* b, std::size_t b_step, real* c, std::size_t c_step) {
    thread_local Outer outer;
    outer.add(depth, height, width, a, a_step, b, b_step, c, c_step);
}

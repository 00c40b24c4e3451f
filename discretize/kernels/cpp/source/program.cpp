// The passes that are written out in program.h, as drivers ask for them.

#include "program.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED Forward* ctrnn_forward(const Shared& shared, std::size_t rows) { return new WrittenForward(shared, rows); }

EXPORTED Backward* ctrnn_backward(const Shared& shared, std::size_t rows, std::size_t together) {
    return new WrittenBackward(shared, rows, together);
}

#ifdef COLUMNS
EXPORTED Columns* ctrnn_columns(const Shared& shared, std::size_t rows) { return new WrittenColumns(shared, rows); }
#endif

// A method's attempt, and the way back through it, that are written out in program.h, as the driver asks for them.

#include "program.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED Attempt* ctrnn_attempt(const Shared& shared, std::size_t rows) { return new WrittenAttempt(shared, rows); }

EXPORTED AttemptReturn* ctrnn_attempt_return(const Shared& shared, std::size_t rows) { return new WrittenAttemptReturn(shared, rows); }

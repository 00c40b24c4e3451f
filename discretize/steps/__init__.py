"""One-step maps from (input, state, dt) to the next state: explicit, exponential, implicit and split, a file a family."""

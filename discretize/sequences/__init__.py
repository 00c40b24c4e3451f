"""Run fields over whole sequences: cells, unroll and sequence modules, ragged batches and time stamps."""

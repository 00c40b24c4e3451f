"""Runs trained cells on other clocks: rollouts under any integrator, gates from an oracle, clocks that gates have learned."""

"""What trained cells do on other clocks: rollouts under any integrator, gates from an oracle, clocks that gates have learned."""

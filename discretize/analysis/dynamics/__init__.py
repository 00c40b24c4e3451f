"""Dynamics of fields and of step maps: fixed points, periodic orbits, bifurcations, Lyapunov exponents, basins, phase planes."""

"""Fit named parameters of an equation to data: least squares over solves, standard errors, profiles."""

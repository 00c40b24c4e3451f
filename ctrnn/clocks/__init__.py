"""Changes of time: warps c(t), their speed and inverse, and paths played on a warped clock."""

"""Networks that predict symbols, trained by gradient steps in metrics that do not depend on how activities are written."""

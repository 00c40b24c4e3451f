"""The studies themselves: each file declares one claim, the trainings that try it, and what is shown of them."""

"""One solve: its segments, the engines that step along them, its gradients, events, and the states between its times."""

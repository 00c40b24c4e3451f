"""Repeats the experiments of Tallec and Ollivier 2018, a file for each figure of the paper that is about learning."""

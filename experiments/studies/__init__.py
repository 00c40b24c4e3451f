"""Declares and runs studies: claims about learning, each a set of trainings, a table, figures and a verdict."""

"""Estimators of scikit-learn's kind for people with a table: fit, predict, score."""

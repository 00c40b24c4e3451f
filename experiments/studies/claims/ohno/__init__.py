"""Tests the claims of Ohno and Kumagai 2021 about training, on real recordings and images."""

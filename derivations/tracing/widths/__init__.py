"""Proofs for cells of every width: programs recorded and read at unknown sizes."""

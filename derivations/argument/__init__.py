"""The argument of the papers in identities: change of time, Taylor step, leaky, gated, GRU, LSTM, power decay."""

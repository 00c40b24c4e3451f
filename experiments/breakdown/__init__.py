"""The atlas: where each step of each field stops being the field."""

"""Fields that are networks of torch's: running on their own, or driven by the slope of their input."""

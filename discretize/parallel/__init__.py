"""Sequences computed for all times at once: linear recurrences by a scan, others by Newton's method."""

"""Compares ways to run fields, crosswise: trained under each, run under each, from the same starts on the same batches."""

"""One-step maps, a file a family."""

"""Worker processes: one pool that survives any death, and signals as exceptions that nothing swallows."""

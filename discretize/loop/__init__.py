"""The loop over time that runs of fixed steps share, whatever door they come by."""

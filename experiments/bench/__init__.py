"""What things cost, side by side in one run against what a user would take instead."""

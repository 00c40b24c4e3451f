"""What each text claims, entry by entry: a file for each text, or for a part of a long one."""

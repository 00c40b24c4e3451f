"""Files that are whole or not there, and are what they seem."""

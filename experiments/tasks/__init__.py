"""What is to be learned: tasks that make their sequences, and recorded ones."""

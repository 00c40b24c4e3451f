"""What is measured: a file for each kind of work, of which a comparison has one part or more."""

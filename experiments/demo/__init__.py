"""The main job: the theory run on a recording, as one page; a section of it a file."""

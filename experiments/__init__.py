"""Claims about recurrent cells and time, each repeated by one command."""

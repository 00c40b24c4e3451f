"""Tests claims about recurrent cells and time, each by one command."""

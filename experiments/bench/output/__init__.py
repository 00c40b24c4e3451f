"""Tables, figures and files of a comparison."""

"""Pages and figures: sections, tables, colours, plots, and files that are whole or not there."""

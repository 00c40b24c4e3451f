"""What a comparison is written as: tables, figures, pages, files."""

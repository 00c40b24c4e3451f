"""A program's values written out in C++: for rows, one sample each, and for samples side by side."""

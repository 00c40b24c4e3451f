"""Write a program's values in C++: for rows, one sample each, and for samples side by side."""

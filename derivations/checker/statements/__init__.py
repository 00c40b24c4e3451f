"""Statements as the checker takes them, and what the steps of a certificate show of one."""

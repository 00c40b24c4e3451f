"""Times, memory and first use of this toolkit, side by side with other libraries."""

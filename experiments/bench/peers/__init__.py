"""What is compared: this toolkit's engines and other libraries, each by name."""

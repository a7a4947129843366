"""What is read from the store."""

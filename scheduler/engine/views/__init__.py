"""What the API shows of the state."""

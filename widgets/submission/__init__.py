"""What is sent to the pool: capture, options, form and magic."""

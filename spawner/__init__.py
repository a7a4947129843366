"""Build notebooks with a fixed GPU quota."""

"""A trainer in a package under src."""

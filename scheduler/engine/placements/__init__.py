"""How fast jobs ran where they were placed, and what follows for others."""

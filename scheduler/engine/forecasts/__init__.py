"""Expected starts, run times and placement speed."""

"""Calls about the runs of jobs beside the jobs themselves."""

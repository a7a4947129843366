"""Estimates from ended jobs: run times of similar jobs, and the recent use of projects."""

"""Packages that are installed for jobs on one machine."""

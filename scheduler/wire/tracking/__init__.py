"""Trackers of reports: where else the reports of a job are shown."""

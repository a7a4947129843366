"""Jobs that are run again."""

"""What a submission runs: its command, its variables and its files."""

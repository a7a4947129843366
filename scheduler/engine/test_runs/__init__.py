"""Test runs: a job of one worker on one GPU that has to pass before the job itself waits in line."""

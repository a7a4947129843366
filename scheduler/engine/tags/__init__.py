"""Tags of jobs: which words they may be, and how they are changed after the submission."""

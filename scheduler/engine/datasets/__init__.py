"""Who may use which datasets."""

"""Tags of jobs: what people ask to change of them."""

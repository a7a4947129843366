"""Forms that submit jobs, as pages draw them."""

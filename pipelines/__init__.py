"""Jobs of the pool as parts of pipelines of other programs."""

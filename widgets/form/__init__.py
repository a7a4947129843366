"""The form to submit jobs with: ``pool.form()``."""

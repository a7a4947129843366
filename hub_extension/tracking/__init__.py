"""Forwarding of reports to the trackers that an admin has set: an MLflow server, TensorBoard's event files."""

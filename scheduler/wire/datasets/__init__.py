"""Datasets as the API tells them."""

"""The pool's HTTP API."""

"""Requests of users and admins, validated and turned into changes of state."""

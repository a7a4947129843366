"""Common parts of all request handlers: authentication, the caller, errors."""

"""The API's views of the state."""

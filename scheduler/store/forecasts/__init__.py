"""Forecasts of starts that were shown, kept to be compared with what happened."""

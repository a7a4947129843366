"""The phases of a plan: what becomes of reservations and gangs, and the means by which requests get GPUs."""

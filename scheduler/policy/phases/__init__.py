"""The phases of a plan: reservations, repair of gangs, and the means by which requests get GPUs."""

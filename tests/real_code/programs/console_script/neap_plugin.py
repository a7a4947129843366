"""Found by the program of the environment in the working directory."""

RATE = 3

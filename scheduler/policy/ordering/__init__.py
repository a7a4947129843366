"""Order and admission: the next waiting job, and the limits that it has to pass."""

"""A loop in JAX that keeps its tree of parameters with NumPy, and its key."""

import os
import time
from functools import partial

import jax
import numpy as np
from jax import numpy as jnp


@partial(jax.jit, static_argnums=2)
def update(params, key, size):
    data = jax.random.normal(key, (size, 3))
    grads = jax.grad(lambda p: jnp.mean((data @ p["w"] + p["b"] - data.sum(1)) ** 2))(params)
    return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads)


params, key, first = {"w": jnp.zeros(3), "b": jnp.zeros(())}, jax.random.PRNGKey(0), 0
if os.path.exists("params.npz"):
    saved = np.load("params.npz")
    params = {"w": jnp.asarray(saved["w"]), "b": jnp.asarray(saved["b"])}
    key, first = jnp.asarray(saved["key"]), int(saved["step"])
for step in range(first, 30):
    key, now = jax.random.split(key)
    params = update(params, now, 16)
    np.savez("params.tmp.npz", step=step + 1, key=key, **params)
    os.replace("params.tmp.npz", "params.npz")
    print(f"step {step + 1}/30", flush=True)
    time.sleep(0.1)
print("RESULT", [round(float(value), 6) for value in params["w"]], round(float(params["b"]), 6))

"""JAX with Orbax: dropout by random keys, shuffled and augmented data, bfloat16, momentum."""

import jax
import numpy as np
import pausing
from jax import numpy as jnp

from springtide.training.adapters.orbax import Resumable

np.random.seed(0)
data = np.random.default_rng(0).normal(size=(96, 8)).astype("float32")


@jax.jit
def update(state, batch):
    key, own = jax.random.split(state["key"])

    def loss(weights):
        hidden = (batch.astype(jnp.bfloat16) @ weights.astype(jnp.bfloat16)).astype(jnp.float32)
        return jnp.mean((hidden * jax.random.bernoulli(own, 0.5, hidden.shape) - batch.sum(1, keepdims=True)) ** 2)

    speed = 0.9 * state["speed"] + jax.grad(loss)(state["weights"])
    return {"key": key, "speed": speed, "weights": state["weights"] - 0.01 * speed}


parts = Resumable(every=10)
start = {"key": jax.random.key(0), "speed": jnp.zeros((8, 4)), "weights": jnp.ones((8, 4))}
state, done = parts.restore(start)
for step in range(done, 40):
    batch = data[np.random.permutation(96)[:16]] + 0.1 * np.random.normal(size=(16, 8)).astype("float32")
    state = update(state, batch)
    pausing.batch()
    parts.done(step + 1, state, of=40)
pausing.show([np.asarray(state["weights"])])

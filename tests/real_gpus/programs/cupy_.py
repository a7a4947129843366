"""A loop of CuPy with random numbers made on the GPU."""

import cupy
import pausing

from springtide.training import current_job

job = current_job()
cupy.random.seed(0)
found = job.restore()
weights, speed, done = found.state if found else (cupy.ones((64, 16)), cupy.zeros((64, 16)), 0)
for step in range(done, 60):
    data = cupy.random.default_rng(step).standard_normal((256, 64))
    speed = 0.9 * speed + data.T @ (data @ weights - data.sum(1, keepdims=True)) / 256
    weights = weights - 0.01 * speed
    pausing.batch()
    job.report(step=step + 1, of=60)
    if job.should_pause():
        job.save((weights, speed, step + 1), step=step + 1)
        job.exit_for_pause()
pausing.show([cupy.asnumpy(weights)])

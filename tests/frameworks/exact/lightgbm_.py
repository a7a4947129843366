"""LightGBM: early stopping, a record of the evaluations."""

import os

import lightgbm
import numpy as np
import pausing

from springtide.training.adapters.lightgbm import train

rng = np.random.default_rng(0)
data = rng.normal(size=(2000, 10))
target = data[:, 0] * data[:, 1] + rng.normal(size=2000)
training = lightgbm.Dataset(data[:1500], target[:1500])
test = lightgbm.Dataset(data[1500:], target[1500:], reference=training)
params = {
    "objective": "regression",
    "early_stopping_round": 15,
    "num_threads": 1,
    "deterministic": True,
    "verbosity": -1,
}
if "SAMPLES" in os.environ:
    params.update(bagging_fraction=0.7, bagging_freq=3, feature_fraction=0.5)
record: dict = {}
model = train(
    params,
    training,
    200,
    valid_sets=[test],
    callbacks=[lightgbm.record_evaluation(record), lambda _: pausing.batch()],
)
print(model.num_trees(), model.best_iteration, len(record["valid_0"]["l2"]))
pausing.show([model.predict(data[1500:]), np.array(record["valid_0"]["l2"])])

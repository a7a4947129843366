"""scikit-learn: a network that learns in steps, on data shuffled and augmented by NumPy's global numbers."""

import numpy as np
import pausing
from sklearn.neural_network import MLPRegressor

from springtide.training.adapters.sklearn import Resumable

np.random.seed(0)
data = np.random.default_rng(0).normal(size=(200, 8))
target = data[:, 0] * data[:, 1]
parts = Resumable(MLPRegressor(hidden_layer_sizes=(16,), random_state=0))
for _ in parts.steps(20):
    order = np.random.permutation(200)
    parts.model.partial_fit(data[order] + 0.1 * np.random.normal(size=(200, 8)), target[order])
    pausing.batch()
pausing.show([*parts.model.coefs_, *parts.model.intercepts_])

"""Keras: a model that is trained, and then fine-tuned by a second ``fit`` with another optimizer."""

import keras
import numpy as np
import pausing

from springtide.training.adapters.keras import callback


class Count(keras.callbacks.Callback):
    def on_train_batch_end(self, *_, **__):
        pausing.batch()


keras.utils.set_random_seed(0)
data = np.random.default_rng(0).normal(size=(96, 8)).astype("float32")
features = keras.layers.Dense(16, "relu")
model = keras.Sequential([keras.Input((8,)), features, keras.layers.Dropout(0.5), keras.layers.Dense(1)])
for epochs in (2, 3):
    model.compile(keras.optimizers.Adam(0.01 / epochs), "mse")
    model.fit(data, data.sum(1), epochs=epochs, batch_size=8, verbose=0, callbacks=[Count(), callback()])
    features.trainable = False
pausing.show(model.get_weights())

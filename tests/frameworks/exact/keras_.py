"""Keras: dropout, augmentation and normalization in the model, bfloat16, shuffled data, validation."""

import keras
import numpy as np
import pausing

from springtide.training.adapters.keras import callback


class Count(keras.callbacks.Callback):
    def on_train_batch_end(self, *_, **__):
        pausing.batch()


keras.utils.set_random_seed(0)
keras.config.set_dtype_policy("mixed_bfloat16")
data = np.random.default_rng(0).normal(size=(96, 8)).astype("float32")
model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.GaussianNoise(0.1),
        keras.layers.Dense(16, "relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.5),
        keras.layers.Dense(1, dtype="float32"),
    ]
)
model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
history = model.fit(
    data, data.sum(1), epochs=4, batch_size=8, validation_split=0.25, verbose=0, callbacks=[Count(), callback()]
)
print("mae", history.history["mae"][-1])
pausing.show(model.get_weights())

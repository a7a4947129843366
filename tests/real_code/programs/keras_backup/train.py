"""Keras with its own callback for interrupted trainings."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np


class Progress(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(f"step {epoch + 1}/16", flush=True)
        time.sleep(0.2)


keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
model.compile("adam", "mse")
callbacks = [keras.callbacks.BackupAndRestore("backup"), Progress()]
model.fit(x, y, batch_size=16, epochs=16, shuffle=False, verbose=0, callbacks=callbacks)
print("RESULT", [round(float(value), 5) for value in model.layers[0].get_weights()[0][0]])

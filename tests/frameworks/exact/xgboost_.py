"""XGBoost: early stopping, a record of the evaluations."""

import os

import numpy as np
import pausing
import xgboost

from springtide.training.adapters.xgboost import train


class Count(xgboost.callback.TrainingCallback):
    def after_iteration(self, *_):
        pausing.batch()
        return False


rng = np.random.default_rng(0)
data = rng.normal(size=(2000, 10))
target = data[:, 0] * data[:, 1] + rng.normal(size=2000)
training, test = xgboost.DMatrix(data[:1500], target[:1500]), xgboost.DMatrix(data[1500:], target[1500:])
params = {"max_depth": 4, "eta": 0.2, "nthread": 1}
if "SAMPLES" in os.environ:
    params.update(subsample=0.7, colsample_bynode=0.5)
record: dict = {}
model = train(
    params,
    training,
    200,
    evals=[(test, "test")],
    evals_result=record,
    early_stopping_rounds=15,
    verbose_eval=False,
    callbacks=[Count()],
)
print(model.num_boosted_rounds(), model.best_iteration, len(record["test"]["rmse"]))
pausing.show([model.predict(test), np.array(record["test"]["rmse"])])

"""Checkpoints, pauses and reports for frameworks, each of which is imported only when it is used.

`pytorch.Resumable`, `orbax.Resumable` and `sklearn.Resumable` are for loops; `lightning.callback`,
`huggingface.callback` and `keras.callback` are for trainers that accept callbacks; `xgboost.train` and
`lightgbm.train` take the place of the frameworks' own functions.
"""

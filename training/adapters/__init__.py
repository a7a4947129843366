"""Checkpoints, pauses and reports for frameworks, each of which is imported only when it is used.

`pytorch.Resumable` for loops of one's own; `lightning.callback`, `huggingface.callback` and `keras.callback` for
trainers that take callbacks.
"""

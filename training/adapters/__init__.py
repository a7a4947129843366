"""Checkpoints, pauses and reports for frameworks, each of which is imported only when it is used.

`pytorch.Resumable` is for plain training loops; `lightning.callback`, `huggingface.callback` and `keras.callback`
are for trainers that accept callbacks.
"""

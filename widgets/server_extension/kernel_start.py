"""What IPython kernels of a notebook server run first (``PYTHONSTARTUP``); a Python in a terminal does nothing.

Kernels of any Python run it, also those without Springtide.
"""

if "IPython" in __import__("sys").modules:
    with __import__("contextlib").suppress(Exception):
        __import__("springtide.widgets")

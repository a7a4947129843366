"""Runs the processes of one attempt, and outlives the service that asked for it.

This directory is run as a program, ``python -I -S supervisor DIRECTORY`` with the attempt's directory. It needs
nothing but the standard library and that directory, and reads nothing that a user could have put in its way:

- ``lock``: held for as long as it lives; whoever cannot take it leaves at once, so an attempt never runs twice.
- ``spec.json``: what to run, complete; it decides nothing itself.
- ``supervisor.json``: its pid, start time and boot id, on disk before the job is executed; then the workers' pids.
- ``pause``, ``kill``: what it is asked for; SIGTERM tells it to look.
- ``log.<rank>``: what the workers print, capped.
- ``exit.json``: how the attempt ended, written by rename when every process it started is gone.

In a pod it is process 1 and runs one worker, ``supervisor DIRECTORY RANK``. Then the names of its own records
carry the rank (``lock.<rank>``, ``supervisor.<rank>.json``, ``exit.<rank>.json``); SIGTERM itself asks for a pause
unless a file asks for more; the worker finds the environment of its image; what it prints is passed on to standard
output too; and the end is told by the exit code and by the pod's termination message.
"""

"""Runs the processes of one attempt on this machine, and outlives the service that asked for it.

This directory is run as a program, ``python -I -S supervisor DIRECTORY`` with the attempt's directory. It needs
nothing but the standard library and that directory, and reads nothing that a user could have put in its way:

- ``lock``: held for as long as it lives; whoever cannot take it leaves at once, so an attempt never runs twice.
- ``spec.json``: what to run, complete; it decides nothing itself.
- ``supervisor.json``: its pid, start time and boot id, on disk before the job is executed; then the workers' pids.
- ``pause``, ``kill``: what it is asked for; SIGTERM tells it to look.
- ``log.<rank>``: what the workers print, capped.
- ``exit.json``: how the attempt ended, written by rename when every process it started is gone.
"""

"""The supervisor: the program that runs the processes of one attempt, and outlives the service.

This directory is run as a program, ``python -I -S supervisor DIRECTORY`` with the attempt's directory. It needs
only the standard library and that directory, and reads no file that a user can write:

- ``lock``: held while it lives; a second supervisor exits at once, so an attempt never runs twice.
- ``spec.json``: what to run, complete; the supervisor decides nothing.
- ``supervisor.json``: its pid, start time and boot id, on disk before the job is executed; then the workers' pids.
- ``run_time``: how long the workers have run so far, in seconds, for a machine that loses power; not in a pod.
- ``pause``, ``kill``: requests; SIGTERM makes it read them. A pod that pauses reads them each second.
- ``log.<rank>``: the output of the workers, capped.
- ``exit.json``: how the attempt ended, written by rename when every process that it started has ended.

In a pod it is process 1 and runs one worker, ``supervisor DIRECTORY RANK``. The names of its own records then have
the rank (``lock.<rank>``, ``supervisor.<rank>.json``, ``exit.<rank>.json``); SIGTERM requests a pause unless a
file requests more; the worker has the environment of its image; its output is copied to standard output; and the
end is in the exit code and in the pod's termination message.
"""

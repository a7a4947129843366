"""The executor that runs attempts as pods of a cluster, one pod per worker.

`executor` needs the packages of the extra ``kubernetes``; `settings` does not, and is read on a single machine
too.
"""

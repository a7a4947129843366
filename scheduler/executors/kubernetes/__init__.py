"""Runs attempts as pods of a cluster, one pod per worker.

`executor` needs the packages of the extra ``kubernetes``; `settings` do not, and are read on one machine too.
"""

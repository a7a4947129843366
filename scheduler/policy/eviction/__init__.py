"""Evictions: which running jobs give way to a waiting one."""

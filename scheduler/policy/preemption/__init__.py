"""Which running jobs give way to a waiting one."""

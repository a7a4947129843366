"""A random search that keeps its trials in SQLite, as studies with a storage do."""

import random
import sqlite3
import time

base = sqlite3.connect("study.db")
base.execute("create table if not exists trials (number integer primary key, x real, value real)")
while True:
    (done,) = base.execute("select count(*) from trials").fetchone()
    if done == 40:
        break
    x = random.Random(done).uniform(-4, 4)
    time.sleep(0.1)
    with base:
        base.execute("insert into trials values (?, ?, ?)", (done, x, (x - 1) ** 2))
    print(f"step {done + 1}/40", flush=True)
print("RESULT", base.execute("select number, x from trials order by value limit 1").fetchone())

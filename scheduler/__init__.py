"""The pool: its model, policy, engine, executors and client."""

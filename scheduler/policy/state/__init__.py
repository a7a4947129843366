"""The planner's state, indexed: nodes, projects, queues and running jobs."""

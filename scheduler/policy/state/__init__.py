"""What the planner knows, indexed: nodes, projects, queues and running jobs."""

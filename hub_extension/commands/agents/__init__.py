"""The tools of ``springtide mcp``: what an AI assistant asks the pool, and what it may do there."""

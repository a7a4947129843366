"""The GPUs of nodes as the agents on them tell: readings, links and sockets, and the devices behind the slots."""

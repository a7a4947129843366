def rate(step):
    return 0.99 if step % 2 else 1.01

"""A line through points."""


class Line:
    """y = a x + b, fitted by gradient descent."""

    def __init__(self):
        self.a, self.b = 0.0, 0.0

    def step(self, points, rate):
        """Move once against the gradient; return the loss before."""
        errors = [(self.a * x + self.b - y, x) for x, y in points]
        self.a -= rate * sum(2 * e * x for e, x in errors) / len(points)
        self.b -= rate * sum(2 * e for e, _ in errors) / len(points)
        return sum(e * e for e, _ in errors) / len(points)

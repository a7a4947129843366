int mix(int value, int step) { return (value * 31 + step) % 65521; }

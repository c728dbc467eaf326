### The charts.

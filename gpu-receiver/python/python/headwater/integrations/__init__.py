"""What frameworks need besides a loader: one module each, which needs that framework."""

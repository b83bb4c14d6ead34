"""The page: pixels and clicks."""

"""References and scores: samples, and the measures of outputs against them."""

"""Truth and scores: samples and what is measured against them."""

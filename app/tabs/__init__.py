"""The tabs of the page: each with its layout, handlers and views. No tab imports another."""

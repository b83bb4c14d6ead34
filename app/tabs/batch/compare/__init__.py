"""The tab *Compare*: the shown run against a second run of the same split."""

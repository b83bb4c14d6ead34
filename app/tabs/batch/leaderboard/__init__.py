"""The tab *Leaderboard*: runs of one split in rows, scores with intervals in columns."""

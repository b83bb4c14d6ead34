"""Verdicts and corrections that reviewers give: what they are, where they are kept, and what they amount to."""

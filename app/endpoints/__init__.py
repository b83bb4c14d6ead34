"""The named endpoints of the page, for programs: run a video, score outputs, open and export runs."""

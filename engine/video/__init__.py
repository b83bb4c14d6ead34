"""Reading and writing of video files."""

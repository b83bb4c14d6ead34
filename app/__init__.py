"""The page: pixels and clicks. Nothing of it reports home: Gradio's analytics are off before Gradio is imported."""

import os

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

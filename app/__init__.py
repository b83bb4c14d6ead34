"""The web page. Gradio's analytics are switched off before Gradio is imported."""

import os

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

"""Image-text models of the hub, streamed without trained heads."""

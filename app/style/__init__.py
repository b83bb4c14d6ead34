"""The look of the page: colours, theme and style sheet."""

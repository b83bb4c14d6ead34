"""Who may use the page: middleware against foreign requests, and the identity of a request."""

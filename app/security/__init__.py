"""Access to the page: middleware against foreign requests, and the identity of a request."""

"""What is logged and raised when something fails, observed on real servers, for the page about it."""

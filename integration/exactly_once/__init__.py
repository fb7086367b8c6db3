"""Whether a thousand additions come to a thousand, while answers are lost and all is stopped and killed."""

"""Redis servers that are restarted, lose their data and fail over, while clients hold locks on them."""

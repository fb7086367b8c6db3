"""Gates on real servers: PostgreSQL and Redis."""

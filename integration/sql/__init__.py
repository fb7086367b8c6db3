"""Locks and guards in transactions of the user's, on PostgreSQL and MariaDB."""

"""Processes that meet at a barrier again and again."""

NAME = "meeting"

"""Tests against real servers, and the servers, proxies and faults they need."""

"""What a lock in PostgreSQL costs at least: two calls of functions there, each a transaction that is synced.

A function locks the row of the queue and adds or deletes a row, as every queue in tables has to. Nobody can
wait here: nothing is looked at, nothing is renewed, nobody is notified.
"""

from __future__ import annotations

import psycopg

from bench.takers import Release, Take, Taker

__all__ = ["Floor"]

MADE = """
CREATE TABLE IF NOT EXISTS floor_queue (name text PRIMARY KEY, token bigint NOT NULL);
CREATE TABLE IF NOT EXISTS floor_contender (queue text, token bigint, PRIMARY KEY (queue, token));
CREATE OR REPLACE FUNCTION floor_take(key text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE drawn bigint;
BEGIN
  INSERT INTO floor_queue VALUES (key, 1) ON CONFLICT (name) DO UPDATE SET token = floor_queue.token + 1
    RETURNING token INTO drawn;
  INSERT INTO floor_contender VALUES (key, drawn);
  IF EXISTS (SELECT 1 FROM floor_contender WHERE queue = key AND token < drawn) THEN
    RAISE 'it is not free';
  END IF;
  RETURN drawn;
END $$;
CREATE OR REPLACE FUNCTION floor_release(key text, mine bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE floor_queue SET token = token WHERE name = key;
  DELETE FROM floor_contender WHERE queue = key AND token = mine;
END $$;
"""


class Floor(Taker):
    """One connection."""

    def __init__(self, address: str) -> None:
        self._connection = psycopg.connect(f"postgresql://app:app@{address}/app", autocommit=True)
        with self._connection.transaction():
            self._connection.execute("SELECT pg_advisory_xact_lock(0)")
            self._connection.execute(MADE)

    def use(self, name: str, side: str) -> Take:
        """Return what takes a free lock."""

        def take() -> Release:
            ((token,),) = self._connection.execute("SELECT floor_take(%s)", (name,))

            def release() -> None:
                self._connection.execute("SELECT floor_release(%s, %s)", (name, token))

            return release

        return take

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

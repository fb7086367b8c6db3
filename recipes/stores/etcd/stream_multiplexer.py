"""Which connections carry the watches, and since when they are silent. No I/O, no clock.

All watches share one channel. ``now`` comes in with every step, in the seconds of one
monotonic clock; ``due`` says when to call ``tick``. After each step the API opens and
closes what ``opens`` and ``closes`` ask for, sends every ``outbox``, and does what
``book.told`` says.

Silence: when nothing was received for ``silence_s``, a progress request asks for a sign
of life; when that is not answered within the same time, or within twice ``patience_s`` where
there is another server to go to, the channel is dead. So it is when a create is not answered
within one and a half ``patience_s``: what waits for it is not notified. (etcd 3.4.23 and 3.5.1
answer a progress request always, from 3.5.8 on only while watches are synchronized; a false
alarm costs a look and a new watch.)

A proxy that withholds unfinished request bodies: when the first watch of a channel is not
confirmed within ``patience_s``, it is asked again on a connection of its own, with a
complete body. If that is answered and the shared channel still is not, ``patience_s`` later
(so that a server that was merely stopped is not taken for a proxy), each watch gets its
connection for a while (``_SOLO_FOR_S``); then the shared channel has another chance. A proxy that refuses
such bodies says so at once (``_UNFINISHED``).

Watches that have delivered their one event are cancelled together, ``_SPENT_KEPT_S`` later: a
cancel costs the server half of what a call does, and at that moment the next in line makes one. They
go with what is said or read from then on; where nothing is, `tick` sees to them, ``_SPENT_AT_MOST_S`` later.
"""

from __future__ import annotations

from typing import Any

from recipes._contract.connection import Mailbox
from recipes.errors import StoreUnavailable
from recipes.events import log
from recipes.stores.etcd.gateway_wire import GATEWAY
from recipes.stores.etcd.stream_book import Arming, Telling, WatchBook, cancel_message
from recipes.stores.etcd.wire_answers import error_in, error_of, unavailable
from recipes.stores.etcd.wire_dial import Endpoints
from recipes.stores.etcd.wires import Authorization, Channel, RefusedError, Wire, WireError

__all__ = ["Multiplexer"]

_SOLO_FOR_S = 600.0
_UNFINISHED = (411, 413, 501)
"""Statuses of HTTP for a body whose length is not known: length required, too large, not implemented."""
_SPENT_KEPT_S = 0.05
_SPENT_AT_MOST_S = 0.1
_PROGRESS: dict[str, Any] = {"progress_request": {}}


class Multiplexer:
    """Route watches to channels; the state of both APIs' watching.

    Attributes:
        opens: Channels to connect; report back with ``connected`` or ``broken``.
        closes: Channels whose connection, if any, is to be closed.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        authorization: Authorization | None,
        wire: Wire = GATEWAY,
        *,
        silence_s: float = 5.0,
        patience_s: float = 1.0,
    ) -> None:
        self.book = WatchBook()
        self.opens: list[Channel] = []
        self.closes: list[Channel] = []
        self._endpoints = endpoints
        self._authorization = authorization
        self._wire = wire
        self._silence_s = silence_s
        self._patience_s = patience_s
        self._main: Channel | None = None
        self._fresh = False  # nothing was received yet on the shared channel
        self._heard = 0.0  # when something was last received there
        self._asked: float | None = None  # since when it owes an answer; None while it owes nothing
        self._solos: dict[int, Channel] = {}
        self._solo_until = 0.0
        self._trial = False  # is it a proxy? until that is known, new watches are made alone
        self._answered: float | None = None  # when the trial's first lone watch was answered
        self._said = False
        self._used: str | None = None  # the token of the shared channel
        self._spent: list[int] = []  # watches of the shared channel that have told all
        self._spent_since = 0.0

    def arm(self, arming: Arming, now: float) -> None:
        """Watch for ``arming``: on the shared channel, on a watch that is there, or alone."""
        self.follow()
        endpoint = self._endpoints.current()
        self._renew_token()
        alone = self._trial or now < self._solo_until
        number = self.book.arm(arming, endpoint.store, twice=not alone)
        if number is None:
            return
        if alone:
            self._alone(number)
            return
        if self._main is None:
            self._main = self._wire.channel(endpoint, self._used)
            self._fresh = True
            self._heard, self._asked = now, None
            self.opens.append(self._main)
        elif not self._fresh and self._asked is None:
            self._asked = now  # a fresh one owes since it was connected
        self._sweep(now)
        self._main.say(self.book.create_message(number))

    def drop(self, arming: Arming) -> None:
        """Undo ``arming``: its caller gave up."""
        self._cancel(self.book.drop(arming))

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``."""
        self._cancel(self.book.forget(mailbox))

    def connected(self, channel: Channel, now: float) -> None:
        """Take note that ``channel`` has its connection: from now on it can be silent."""
        if channel is self._main and self._fresh:
            self._heard = self._asked = now

    def received(self, channel: Channel, data: bytes, now: float) -> None:
        """Take what arrived on ``channel``; ``b""`` is the end of the connection."""
        if not self._uses(channel):
            return
        if channel is self._main and data and not self._fresh:
            self._heard = now
        self._sweep(now)
        try:
            for document in channel.feed(data):
                if self._uses(channel):  # an earlier document may have ended it
                    self._document(channel, document, now)
        except WireError as error:
            self.broken(channel, unavailable(channel.endpoint.store, str(error)))
        except RefusedError as refused:
            store = channel.endpoint.store
            if channel is self._main and refused.status in _UNFINISHED:
                self._go_around(channel, "refuses", now)
                self._again_alone()
                return
            self.broken(channel, error_of(store, str(refused.status), refused.body))

    def broken(self, channel: Channel, error: Exception) -> None:
        """Give up ``channel``: its watches are lost, and the next one is made elsewhere."""
        if not channel.live:
            return
        if isinstance(error, StoreUnavailable):
            self._endpoints.failed(channel.endpoint)
        number = self._number_of(channel)
        if number is None:
            self._lose_main(channel, error)
        else:
            self._close(channel)
            del self._solos[number]
            self.book.lose([number], error)

    def follow(self) -> None:
        """Leave every server but the one that calls are made to: the others were left for a reason."""
        current = self._endpoints.current()
        for channel in self._channels():
            if channel.endpoint != current:
                self.broken(channel, unavailable(channel.endpoint.store, "another server is asked by now"))

    def lose_all(self, error: Exception) -> None:
        """Give up every channel and watch, for no fault of any server, in whatever state they were left."""
        for channel in self._channels():
            self._close(channel)
        self._solos.clear()
        self._forget_main()
        self.book.lose_all(error)

    def due(self) -> float | None:
        """Return when ``tick`` has something to do, None if never as things stand."""
        due = self._suspicious_at()
        if not self._spent:
            return due
        sweep = self._spent_since + _SPENT_AT_MOST_S
        return sweep if due is None else min(sweep, due)

    def tick(self, now: float) -> None:
        """Do what is due: cancel what is spent, ask for a sign of life, or give up on a silent channel."""
        self._sweep(now)
        self._suspect(now)

    def _suspicious_at(self) -> float | None:
        """Return when the silence of the shared channel means more than it did."""
        if self._main is None or not self._owing():
            return None
        if self._asked is None:
            return self._heard + self._silence_s
        if self._fresh and not self._trial:
            return self._asked + self._patience_s
        if self._fresh and self._answered is not None:
            return self._answered + self._patience_s
        if not self._fresh and self._owes_creates():
            return self._asked + 1.5 * self._patience_s
        return self._asked + (2 * self._patience_s if self._endpoints.several else self._silence_s)

    def _suspect(self, now: float) -> None:
        """Ask for a sign of life, declare a silent channel dead, or go around a proxy."""
        main, due = self._main, self._suspicious_at()
        if main is None or due is None or now < due:
            return
        if self._asked is None:
            self._asked = now
            main.say(_PROGRESS)
        elif self._fresh and not self._trial:
            self._try_alone(main)
        elif self._answered is not None:
            self._go_around(main, "withholds", now)
        else:
            self.broken(main, unavailable(main.endpoint.store, "the watch stream is silent"))

    def take_told(self) -> list[Telling]:
        """Return what is to be delivered, and forget it."""
        told, self.book.told = self.book.told, []
        return told

    def _channels(self) -> list[Channel]:
        return [*self._solos.values(), *([self._main] if self._main else [])]

    def _owing(self) -> bool:
        """Say whether silence on the shared channel means anything."""
        if self._fresh:
            return self._asked is not None
        return len(self.book) > len(self._solos) or self._asked is not None

    def _owes_creates(self) -> bool:
        """Say whether the shared channel has a create to confirm."""
        return any(number not in self._solos for number in self.book.unanswered())

    def _document(self, channel: Channel, document: dict[str, Any], now: float) -> None:
        store = channel.endpoint.store
        if "error" in document:
            self.broken(channel, error_in(store, document))
            return
        number = self._number_of(channel)
        try:
            result = document["result"]
            # What a trial made again alone is not listened to here: it would end with the cancel.
            ours = number is not None or int(result.get("watch_id", 0)) not in self._solos
            cancels = self.book.take(result, number) if ours else []
        except (AttributeError, LookupError, TypeError, ValueError):
            self.broken(channel, unavailable(store, "the watch stream sent a document of unknown shape"))
            return
        self._spend(cancels, now)
        if number is None:
            self._fresh = self._trial = False
            self._answered = None
            self._heard = now
            self._asked = now if self._owes_creates() else None
            return
        if self._trial and self._answered is None:
            self._answered = now
        if not self.book.has(number) and number in self._solos:
            self._close(self._solos.pop(number))

    def _spend(self, numbers: list[int], now: float) -> None:
        """Have done with watches that delivered their event; those of the shared channel are for `_sweep`."""
        shared = [number for number in numbers if number not in self._solos]
        if shared and not self._spent:
            self._spent_since = now
        self._spent += shared
        self._cancel([number for number in numbers if number in self._solos])

    def _sweep(self, now: float) -> None:
        """Cancel what is spent, when it is time."""
        if self._spent and now >= self._spent_since + _SPENT_KEPT_S:
            spent, self._spent = self._spent, []
            self._cancel(spent)

    def _cancel(self, numbers: list[int]) -> None:
        for number in numbers:
            if number in self._solos:
                self._close(self._solos.pop(number))
                self.book.abandon(number)
            elif self._main is not None:
                self._main.say(cancel_message(number))

    def _try_alone(self, main: Channel) -> None:
        self._trial = True
        for number in self._again_alone():
            main.say(cancel_message(number))

    def _again_alone(self) -> list[int]:
        """Create alone what was asked for on the shared channel; returns what that has not confirmed."""
        numbers = [number for number in self.book.unanswered() if number not in self._solos]
        for number in numbers:
            if self.book.has(number):
                self._alone(number)
            else:
                self.book.abandon(number)
        return numbers

    def _go_around(self, main: Channel, does: str, now: float) -> None:
        """Have each watch use its own connection for a while: a proxy does something to the shared one."""
        self._close(main)
        self._forget_main()
        self._solo_until = now + _SOLO_FOR_S
        if not self._said:
            self._said = True
            log.warning(
                "%s: a proxy %s the watch stream; using one connection for each watch",
                main.endpoint.store,
                does,
            )

    def _alone(self, number: int) -> None:
        message = self.book.create_message(number)
        channel = self._wire.channel(self._endpoints.current(), self._used, message)
        self._solos[number] = channel
        self.opens.append(channel)

    def _uses(self, channel: Channel) -> bool:
        return channel.live

    def _number_of(self, channel: Channel) -> int | None:
        return next((number for number, solo in self._solos.items() if solo is channel), None)

    def _close(self, channel: Channel) -> None:
        channel.live = False
        self.closes.append(channel)

    def _forget_main(self) -> None:
        self._main = None
        self._spent.clear()
        self._trial, self._answered = False, None

    def _lose_main(self, main: Channel, error: Exception) -> None:
        self._close(main)
        self._forget_main()
        self.book.lose([n for n in self.book.numbers() if n not in self._solos], error)

    def _renew_token(self) -> None:
        """Leave a channel whose token is not the current one: etcd checks it at each create."""
        token = None if self._authorization is None else self._authorization()
        if self._main is not None and token != self._used:
            error = unavailable(
                self._main.endpoint.store, "the watch stream is opened again with a new token"
            )
            self._lose_main(self._main, error)
        self._used = token

"""A client of Mosquitto with paho-mqtt: messages are sent once (QoS 0), as NATS does."""

import asyncio
import threading
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from vinecast.lab.bench.member import TOPIC, read_line, say, serve
from vinecast.lab.bench.rivals.publications import RivalTally, publish_run

LOOK_S = 0.02  # ours


class MosquittoMember:
    """A publisher, or a subscriber whose messages are handed to a callback, in paho's own thread."""

    def __init__(self, client: Client, subscribed: threading.Event) -> None:
        self._client, self._subscribed = client, subscribed

    async def join(self, peers: list[str]) -> None:
        """All know the server."""

    async def ready(self, members: int) -> None:
        """The server has heard of the subscription."""
        while not self._subscribed.is_set():
            await asyncio.sleep(LOOK_S)

    async def publish(self, payloads: list[bytes]) -> None:
        """Several: until they are on the connection, so that not all of a run waits in memory."""
        told = [self._client.publish(TOPIC, payload) for payload in payloads]
        if len(told) > 1:
            await asyncio.to_thread(told[-1].wait_for_publish)
        await asyncio.sleep(0)


async def mosquitto_client(settings: dict[str, Any]) -> None:
    """What the process does."""
    tally, subscribed = RivalTally(), threading.Event()
    client = Client(CallbackAPIVersion.VERSION2)
    client.on_subscribe = lambda *_: subscribed.set()
    client.on_message = lambda client, data, message: tally.take(message.payload)
    client.connect("127.0.0.1", int(settings["server"]))
    client.loop_start()
    if settings["reads"]:
        client.subscribe(TOPIC)
    else:
        subscribed.set()
    say({"is": "up", "address": ""})
    await serve(MosquittoMember(client, subscribed), tally, read_line, asyncio.sleep, publish_run)
    client.loop_stop()

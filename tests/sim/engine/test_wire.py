"""What messages weigh, by hand."""

import numpy as np
import pytest

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.machine import NOBODY
from vinecast.core.sweep import UNANSWERED, Mailbox, Phase
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.cyclon.machine import CyclonRequest
from vinecast.protocols.kademlia.messages import (
    VALUE,
    KademliaAnswer,
    KademliaFind,
    KademliaPing,
    KademliaStore,
)
from vinecast.protocols.multicast_tree.messages import TreeHeartbeat, TreeJoin
from vinecast.protocols.rings import RingsConfig
from vinecast.protocols.tman import TManProfile, TManRequest
from vinecast.sim.engine.wire import (
    FRAME,
    GAPS,
    NUMBER,
    PEER,
    PROPOSAL,
    RECEIVED,
    SENT,
    TOPIC,
    ControlMeter,
    profile_topic_bytes,
)
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.machine import PolderCastEvent
from vinecast.systems.rvr.machine import RvrConfig
from vinecast.systems.vitis.machine import VitisConfig

# Nodes 0, 1, 2 have 2, 0 and 3 topics.
PROFILES = Profiles.simulated(1, np.array([0, 2, 2, 5]), np.array([0, 1, 0, 1, 2], dtype=np.int32), 3)
PAPER = PolderCastConfig(rings=RingsConfig(exchange="paper"))
ENTRY, OF_A_TOPIC = 16, 9


def request(*peers: int) -> CyclonRequest:
    return CyclonRequest(7, np.array(peers, dtype=np.int32), np.zeros(len(peers), dtype=np.uint16))


@pytest.mark.parametrize(
    ("message", "weight"),
    [
        (request(), FRAME),
        (request(1), FRAME + ENTRY),
        (request(0, 2), FRAME + 2 * ENTRY + 5 * OF_A_TOPIC),
        (TreeJoin(1), FRAME + TOPIC),
        (TreeHeartbeat((0, 1, 2)), FRAME + 3 * TOPIC),
        (KademliaPing(7), FRAME + NUMBER),
        (KademliaFind(7, bytes(32), VALUE), FRAME + 2 * NUMBER + 32),
        (KademliaAnswer(7, (1, 2)), FRAME + NUMBER + 2 * PEER),
        (KademliaAnswer(7, (1, 2), (0, 1, 2), bytes(100)), FRAME + NUMBER + 5 * PEER + 100),
        (KademliaStore(7, bytes(32), bytes(100), 60), FRAME + 2 * NUMBER + 132),
    ],
)
def test_messages(message: object, weight: int) -> None:
    meter = ControlMeter(PROFILES, PAPER)
    meter.message(0, 2, message)
    assert meter.messages.tolist() == [[1, 0, 0], [0, 0, 1]]
    assert meter.weight.tolist() == [[weight, 0, 0], [0, 0, weight]]
    assert meter.take() == (1, weight)
    assert meter.take() == (0, 0)


def test_events_are_no_control_traffic() -> None:
    meter = ControlMeter(PROFILES, PAPER)
    meter.message(0, 2, PolderCastEvent(0, 1, 2))
    assert meter.take() == (0, 0)


def test_the_informed_exchange_says_more_of_a_topic() -> None:
    informed = PolderCastConfig(rings=RingsConfig(exchange="informed"))
    assert profile_topic_bytes(informed) == profile_topic_bytes(PAPER) + GAPS
    assert profile_topic_bytes(CyclonConfig()) == profile_topic_bytes(PAPER)


def test_vitis_proposes_a_gateway_for_each_topic_of_its_own_profile() -> None:
    peers, ages = np.array([2, 0], dtype=np.int32), np.zeros(2, dtype=np.uint16)
    weights = []
    for config in (RvrConfig(), VitisConfig()):
        for message in (TManRequest(7, peers, ages), TManProfile(7, peers, ages)):
            meter = ControlMeter(PROFILES, config)
            meter.message(2, 1, message)
            weights.append(meter.take()[1])
    plain, own = weights[2] - weights[0], weights[3] - weights[1]
    assert (plain, own) == (2 * NUMBER, 2 * NUMBER + 3 * PROPOSAL)


def test_a_mailbox_weighs_as_much_as_its_messages() -> None:
    box = Mailbox(3, 4)
    box.partner[:] = [2, NOBODY, 0]
    box.count[:] = [2, 3, 1]
    box.peers[0, :2], box.peers[2, :1] = [0, 2], [1]
    meter, twin = ControlMeter(PROFILES, PAPER), ControlMeter(PROFILES, PAPER)
    meter.phase(Phase("request", lambda *_: None, requests=box))
    twin.message(0, 2, request(0, 2))
    twin.message(2, 0, request(1))
    assert meter.messages.tolist() == twin.messages.tolist()
    assert meter.weight.tolist() == twin.weight.tolist()
    box.count[0] = UNANSWERED
    meter.phase(Phase("answer", lambda *_: None, answers=box))
    assert meter.messages[SENT].tolist() == [2, 0, 1]
    assert meter.messages[RECEIVED].tolist() == [1, 0, 2]
    assert meter.weight[SENT, 0] == twin.weight[SENT, 0] + FRAME + PEER + 2

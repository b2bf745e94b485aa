"""What a life is about: its clients, how servers behave, what is configured and reloaded.

    storm    all of it at once; little is claimed of an answer, all of the end
    still    the same without reloads
    places   healthy servers, small bounds, limits that delay: nothing may time out
    timers   clients and servers that would hold a connection for ever
"""
from dataclasses import dataclass, field, replace

from .asks import CONTENT_SIZES
from .clients import OF_LOAD
from .net import PATIENCE_SECONDS
from .servers import BEHAVIOURS, WHOLE

# What reaches the servers of route `bound` for one X-Bound: never more in any such window.
BOUND, BOUND_SECONDS = 12, 0.4

LISTENER_TIMES = """header_timeout = 800ms
linger_timeout = 500ms
idle_timeout = 800ms
body_timeout = 600ms
send_timeout = 400ms
"""
UPSTREAM_TIMES = """connect_timeout = 500ms
send_timeout = 400ms
first_byte_timeout = 600ms
idle_timeout = 400ms
tunnel_timeout = 500ms
keepalive_timeout = 300ms
"""


@dataclass
class Theme:
    name: str
    sections: object             # function(random, life, step) -> text
    scripts: dict                # name: weight
    behaviours: dict             # name: weight
    routes: tuple
    clients: int                 # a wave
    at_once: int
    sizes: tuple = CONTENT_SIZES
    free_route: str = "free"
    own_statuses: set = field(default_factory=lambda: OF_LOAD)
    patience: float = PATIENCE_SECONDS
    poke_seconds: float = 4.0
    reload_seconds: tuple = (0.03, 0.25)  # between two; None: no reloads
    stops: bool = True
    deaths: bool = False
    listener: str = LISTENER_TIMES

    def script(self, random):
        return random.choices(list(self.scripts), self.scripts.values())[0]

    def behaviour(self, random):
        return random.choices(list(self.behaviours), self.behaviours.values())[0]


# ---- storm --------------------------------------------------------------------------------------

def storm_sections(r, life, step):
    """One of very many configurations with the same routes. What `bound` promises stays."""
    def pick(*lines):
        return r.choice(lines)

    def upstream(name):
        chosen = r.sample(life.servers, r.randrange(1, len(life.servers) + 1))
        return (f"[upstream {name}]\n"
                + "".join(f"server = {one.address}{pick('', '', ' max_in_flight=3')}\n" for one in chosen)
                + UPSTREAM_TIMES
                + pick("", "max_in_flight = 2\n", "max_in_flight = 6\n", "max_in_flight = auto\n")
                + pick("", "", "pace = 30 per 100ms\n")
                + pick("", "", "shed_target = 50ms\nshed_interval = 20ms\n")
                + pick("", "quantum = 20\n", "keepalive = 1\n", "keepalive = 0\n")
                + pick("", "balance = least_in_flight\n", "balance = hash\nhash_key = path\n")
                + pick("", "retries = 0\n", "max_fails = 0\n")
                + "fail_timeout = 20ms\nfail_timeout_max = 50ms\n")

    def route(letter):
        return (f"[route {letter}]\npath = /{letter}\nupstream = {pick('u', 'v')}\n"
                f"session = header:X-Api-Key | ip\nordering = {pick('writes', 'strict', 'none')}\n"
                f"queue_timeout = {pick('20ms', '1s', '1s')}\nqueue_depth = {pick('2', '1000')}\n"
                f"session_idle_timeout = {pick('10ms', '100ms')}\nhigh_burst = {pick('1', '4')}\n"
                + pick("", "", "upstream_affinity = session\n") + pick("", "session_in_flight = 2\n")
                + pick("", "queue_bytes = 30k\n") + pick("", "max_body_size = 100k\n")
                + pick("", "request_buffering = off\n", "request_buffering = 4k file 100k\n")
                + pick("", "response_buffering = off\n", "response_buffering = 4k file 1M\n")
                + pick("", "limits = slow\n", "limits = few\n", "limits = slow, flow\n"))

    limits = (f"[limit slow]\nkey = header:X-Api-Key\nrate = {pick('10', '20', '30')} per 100ms\n"
              f"on_exceed = {pick('reject', 'delay 50ms', 'delay 200ms')}\n"
              f"[limit few]\nkey = header:X-Api-Key\nconcurrency = {pick('2', '3')}\n"
              f"[limit flow]\nkey = header:X-Api-Key\nrate = {pick('1MB', '5MB')} per 100ms\n"
              f"[limit bound]\nkey = header:X-Bound\nrate = {BOUND} per {BOUND_SECONDS * 1000:.0f}ms\n"
              f"on_exceed = {pick('reject', 'delay 100ms')}\n")
    return (limits + upstream("u") + upstream("v") + "".join(route(letter) for letter in "abcd")
            + f"[route bound]\npath = /bound\nupstream = {pick('u', 'v')}\nlimits = bound\n"
              f"ordering = none\nqueue_timeout = 1s\n"
            + fixed_sections(life))


def fixed_sections(life):
    # Its answers of megabytes take this program a while.
    times = UPSTREAM_TIMES.replace("first_byte_timeout = 600ms", "first_byte_timeout = 3s")
    return (f"[upstream free]\nserver = {life.servers[0].address}\n{times}max_fails = 0\n"
            "[route free]\npath = /free\nupstream = free\nordering = none\nsession = header:X-None | ip\n"
            "[route deny]\npath = /deny\nupstream = free\ndeny = 0.0.0.0/0\n")


STORM = Theme(
    name="storm", sections=storm_sections, clients=260, at_once=32, deaths=True,
    own_statuses=OF_LOAD | {413},
    routes=("a", "b", "c", "d", "bound"),
    scripts={"asks": 10, "pipelines": 10, "drips": 5, "half_closes": 3, "expects": 2, "reads_slowly": 2,
             "speaks_1_0": 3, "leaves": 6, "half_head": 6, "half_body": 3, "upgrades": 4,
             "sends_garbage": 3, "floods": 1, "idles": 1},
    behaviours={**{name: 4 for name in WHOLE - {"hold"}}, "reply_reset": 4, "reply_then_reset": 3,
                **{name: 1 for name in set(BEHAVIOURS) - WHOLE - {
                    "reply_reset", "reply_then_reset", "trickles_for_long", "tunnel", "stalls"}},
                "stalls": 0.5})

STILL = replace(STORM, name="still", reload_seconds=None,
                behaviours={**STORM.behaviours, "reply_reset": 12})


# ---- places -------------------------------------------------------------------------------------

def places_sections(r, life, step):
    """Bounds that stay, with other keys that change; delays of up to a second or so."""
    fixed = life.fixed
    if not fixed:
        fixed.update(in_flight=r.choice((1, 1, 2, 3)), ordering=r.choice(("writes", "none", "strict")),
                     session_in_flight=r.choice((0, 1, 2)), reloads=r.random() < 0.7)
    change = fixed["reloads"] and step > 0
    return (f"[limit turn]\nkey = header:X-Turn\nrate = {r.choice((2, 3)) if change else 2} per 100ms\n"
            "on_exceed = delay 2s\n"
            f"[upstream u]\nserver = {life.servers[0].address}\n"
            f"max_in_flight = {fixed['in_flight']}\nmax_fails = 0\nkeepalive_timeout = 300ms\n"
            f"quantum = {r.choice((10, 20)) if change else 10}\n"
            f"keepalive = {r.choice((1, 64)) if change else 64}\n"
            f"[route a]\npath = /a\nupstream = u\nlimits = turn\nsession = header:X-Session\n"
            f"ordering = {fixed['ordering']}\nsession_in_flight = {fixed['session_in_flight']}\n"
            f"queue_timeout = 5s\nhigh_burst = {r.choice((1, 4)) if change else 4}\n" + fixed_sections(life))


PLACES = Theme(
    name="places", sections=places_sections, clients=30, at_once=6, routes=("a",),
    sizes=(0, 10, 3000, 12_000), own_statuses={429}, stops=True, reload_seconds=(0.1, 0.4),
    scripts={"asks_in_turn": 1, "pipelines_in_turn": 4},
    behaviours={"plain": 3, "pauses": 6, "chunked": 2, "trickles": 1},
    listener="trust_priority = on\nidle_timeout = 600ms\n")


# ---- timers -------------------------------------------------------------------------------------

def timers_sections(r, life, step):
    return fixed_sections(life)


TIMERS = Theme(
    name="timers", sections=timers_sections, clients=24, at_once=24, routes=("free",),
    behaviours={"plain": 1}, stops=False, reload_seconds=(0.5, 1.0),
    scripts={"pokes_unread": 3, "unread_trickle": 2, "pokes_idle": 2, "pokes_head": 2,
             "uploads_to_stalled": 2, "body_stalls": 2})

THEMES = {theme.name: theme for theme in (STORM, STILL, PLACES, TIMERS)}

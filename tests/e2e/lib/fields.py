"""What responses say of limits, read from their fields and bodies."""
import json
import re

from .tap import true


class Told:
    """`policy` and `left`: {limit's name: {parameter: number or text}}."""

    def __init__(self, policy, left):
        self.policy = policy
        self.left = left


def _items(name, value):
    items = {}
    for item in (value or "").split(","):
        match = re.fullmatch(r'\s*"([\w.-]+)"((?:;[a-z]+=(?:\d+|"[a-z-]+"))*)\s*', item)
        true(match, f"{name}: {value!r}")
        parameters = dict(p.split("=") for p in match[2].split(";")[1:])
        items[match[1]] = {k: int(v) if v.isdigit() else v.strip('"') for k, v in parameters.items()}
    return items


def told(answer):
    """RateLimit-Policy and RateLimit in the form of draft 11."""
    return Told(*(_items(name, answer.get(name)) for name in ("RateLimit-Policy", "RateLimit")))


def wait_ms(answer):
    """The exact wait that a refusal's body tells, which Retry-After rounds up."""
    wait = json.loads(answer.body)["retry-after-ms"]
    seconds = int(answer.get("Retry-After"))
    true(wait > 0 and seconds == max(1, -(-wait // 1000)), f"{wait} ms, but Retry-After {seconds}")
    return wait

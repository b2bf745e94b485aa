"""The store's functions by themselves, by a clock that the test sets."""
import os
import re

from .tap import equal


def function_with_clock(name, *places):
    """NAME.lua, in proxy/fleet or proxy/store, by the time in the key `clock`. `places`: (pattern, text, count) that are replaced
    too, so that nothing expires by Redis's own clock."""
    room = "store" if name == "lock" else "fleet"
    path = os.path.join(os.environ.get("top_srcdir", "."), "proxy", room, f"{name}.lua")
    with open(path, encoding="utf-8") as source:
        text = source.read()
    for pattern, by, count in ((r"call\('TIME'\)", "call('MGET', 'none', 'clock')", 1), *places):
        text, found = re.subn(pattern, by, text)
        equal(found, count, f"places of {pattern}")
    return re.sub(r"time\[1\] \* 1000000 \+ time\[2\]", "tonumber(time[2])", text)

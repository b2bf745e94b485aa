"""The store's functions by themselves, by a clock that the test sets."""
import re

from .store_function import function_text
from .tap import equal


def function_with_clock(name, *places):
    """The function of this name by the time in the key `clock`. `places`: (pattern, text, count) that are replaced
    too, so that nothing expires by Redis's own clock."""
    text = function_text(name)
    for pattern, by, count in ((r"call\('TIME'\)", "call('MGET', 'none', 'clock')", 1), *places):
        text, found = re.subn(pattern, by, text)
        equal(found, count, f"places of {pattern}")
    return re.sub(r"time\[1\] \* 1000000 \+ time\[2\]", "tonumber(time[2])", text)

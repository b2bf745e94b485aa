"""The functions that the store runs, as they are joined of files for the binary."""
import os
import re

TOP = os.environ.get("top_srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")


def function_text(name):
    """That of proxy/fleet/Makefile.inc's variable NAME_lua."""
    with open(os.path.join(TOP, "proxy", "fleet", "Makefile.inc"), encoding="utf-8") as rules:
        parts = re.search(rf"^{name}_lua = ((?:.*\\\n)*.*)$", rules.read(), re.M)[1]
    text = ""
    for path in parts.replace("\\\n", " ").split():
        with open(os.path.join(TOP, path), encoding="utf-8") as part:
            text += part.read()
    return text
